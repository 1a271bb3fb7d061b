
// Compares the bounds in each row with the sliders. The page is XML too, so no less-than sign.
const table = document.querySelector("#choice table");
const body = table.querySelector("tbody");
const inputs = [...document.querySelectorAll("#choice input")];
const ends = (row, at) => {
  const [worse, better] = JSON.parse(row.dataset.bounds)[at];
  const sign = inputs[at].name === "jitter" ? -1 : 1;
  return [worse === null ? -Infinity : sign * worse, better === null ? Infinity : sign * better];
};
const compare = () => {
  const wanted = inputs.map((input) => {
    const step = Number(input.value);
    const most = Math.round(200 - 5 * step) / 100;
    const is_jitter = input.name === "jitter";
    const text = is_jitter ? "at most " + most.toFixed(2) : "L" + step + " or better";
    input.parentElement.querySelector("output").value = step === 0 ? "no need" : text;
    return step === 0 ? null : is_jitter ? -most : step;
  });
  for (const row of body.rows) {
    const found = wanted.flatMap((least, at) => {
      if (least === null) return [];
      const [worse, better] = ends(row, at);
      return [worse >= least ? "meets" : better >= least ? "unknown" : "fails"];
    });
    const word = ["fails", "unknown", "meets"].find((one) => found.includes(one)) || "";
    row.dataset.outcome = word;
    row.querySelector(".outcome").textContent = word ? word + table.dataset.by : "-";
  }
};
table.querySelectorAll("button").forEach((button, at) => {
  button.addEventListener("click", () => {
    const rows = [...body.rows];
    const by = (one, two, end) => ends(two, at)[end] - ends(one, at)[end];
    rows.sort((one, two) => by(one, two, 0) || by(one, two, 1) || 0);
    body.append(...rows);
  });
});
inputs.forEach((input) => input.addEventListener("input", compare));
compare();
