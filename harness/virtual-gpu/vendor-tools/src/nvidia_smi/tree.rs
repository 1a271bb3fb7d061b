//! `nvidia-smi -q` and `-q -x`: one tree, printed as text or as XML.

use super::facts::{Fact, branch, printed};
use super::lists::{mig_rows, process_rows};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::{Error, health};
use gpubench_virtual_gpu_model::machine::Machine;

/// The lines of the tree; the file describes their form.
const TREE: &str = include_str!("tree.txt");

/// The node that is the device.
const DEVICE: &str = "gpu";
/// The node that is a process; its labels are narrower than all others.
const PROCESS: &str = "process_info";
/// The node that has a word in the XML when it is empty.
const MIG_DEVICES: &str = "mig_devices";

/// A part of what is printed.
struct Node {
    /// Name in the XML; empty: not in the XML.
    tag: &'static str,
    /// Name in the text; empty: not in the text.
    label: String,
    /// Whether it is one level deeper in the text.
    deeper: bool,
    /// Absent where it has parts.
    value: Option<String>,
    /// Section of `-d`.
    section: &'static str,
    /// Whether it is only in that section.
    selected: bool,
    children: Vec<Self>,
}

/// A line of the file.
#[derive(Clone, Copy)]
struct Line {
    depth: usize,
    tag: &'static str,
    /// Once for each row of a list.
    many: bool,
    label: &'static str,
    deeper: bool,
    value: Option<&'static str>,
    conditions: &'static str,
}

impl Line {
    fn parse(text: &'static str) -> Option<Self> {
        let body = text.trim_start_matches('\t');
        let (body, conditions) = body.split_once(" @ ").unwrap_or((body, ""));
        let (tag, rest) = body.split_once(':')?;
        let (label, value) = match rest.split_once("= ") {
            Some((label, value)) => (label.trim(), Some(value)),
            None => (rest.trim(), None),
        };
        Some(Self {
            depth: text.len() - text.trim_start_matches('\t').len(),
            tag: tag.trim_end_matches('*'),
            many: tag.ends_with('*'),
            label: label.trim_start_matches('+'),
            deeper: label.starts_with('+'),
            value,
            conditions,
        })
    }

    fn section(&self) -> &'static str {
        self.conditions.split(' ').find_map(|one| one.strip_prefix("d:")).unwrap_or_default()
    }

    fn holds(&self, given: &Given) -> bool {
        self.conditions.split(' ').all(|one| given.holds(one))
    }
}

fn lines() -> Vec<Line> {
    TREE.lines().filter(|line| !line.starts_with('#')).filter_map(Line::parse).collect()
}

/// What conditions ask.
struct Given {
    driver: u32,
    chip: (u32, u32),
    remaps: bool,
}

impl Given {
    fn of(device: &Device) -> Result<Self, Error> {
        let machine = device.machine();
        let chip = machine.compute_capability();
        let divided = device.shared().read(|state| state.mig.current)?;
        Ok(Self {
            driver: branch(&machine.gpu.driver),
            chip,
            // First major capability that remaps rows; older chips retire pages (nvml.h).
            remaps: chip.0 >= 8 && !divided && health::has_ecc(device).is_ok(),
        })
    }

    fn holds(&self, condition: &str) -> bool {
        let number = |text: &str| text.parse().unwrap_or(0);
        let chip = |text: &str| {
            let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
            (number(major), number(minor))
        };
        if let Some(bound) = condition.strip_prefix("driver>=") {
            self.driver >= number(bound)
        } else if let Some(bound) = condition.strip_prefix("driver<") {
            self.driver < number(bound)
        } else if let Some(other) = condition.strip_prefix("driver!=") {
            self.driver != number(other)
        } else if let Some(bound) = condition.strip_prefix("chip>=") {
            self.chip >= chip(bound)
        } else if let Some(bound) = condition.strip_prefix("chip<") {
            self.chip < chip(bound)
        } else {
            match condition {
                "remap" => self.remaps,
                "no-remap" => !self.remaps,
                _ => true,
            }
        }
    }
}

/// What values are made of.
struct Known {
    given: Given,
    device: Vec<Fact>,
    mig: Vec<Vec<Fact>>,
    processes: Vec<Vec<Fact>>,
}

impl Known {
    fn of(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            given: Given::of(device)?,
            device: printed(device)?,
            mig: mig_rows(device)?,
            processes: process_rows(device)?,
        })
    }

    /// The parts that these lines describe, within a row of a list.
    fn nodes(&self, lines: &[Line], row: &[Fact]) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut rest = lines;
        while let Some((line, below)) = rest.split_first() {
            let inside = below.iter().take_while(|other| other.depth > line.depth).count();
            let (children, after) = below.split_at(inside);
            rest = after;
            if !line.holds(&self.given) {
                continue;
            }
            let rows: &[Vec<Fact>] = if line.tag == PROCESS { &self.processes } else { &self.mig };
            match line.many {
                false => nodes.push(self.node(line, children, row)),
                true => nodes.extend(rows.iter().map(|row| self.node(line, children, row))),
            }
        }
        nodes
    }

    fn node(&self, line: &Line, children: &[Line], row: &[Fact]) -> Node {
        Node {
            tag: line.tag,
            label: self.filled(line.label, row),
            deeper: line.deeper,
            value: line.value.map(|value| self.filled(value, row)),
            section: line.section(),
            selected: line.conditions.split(' ').any(|one| one == "selected"),
            children: self.nodes(children, row),
        }
    }

    /// A text with values in place of names; `N/A` if one has none.
    fn filled(&self, text: &str, row: &[Fact]) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            let mut facts = row.iter().chain(&self.device);
            let fact = facts.find(|fact| fact.has_name(name));
            let Some(value) = fact.and_then(Fact::with_unit) else { return "N/A".to_owned() };
            filled.push_str(before);
            filled.push_str(&value);
            rest = after;
        }
        filled + rest
    }
}

/// Everything that is printed of a device.
fn nodes(device: &Device) -> Result<Vec<Node>, Error> {
    Ok(Known::of(device)?.nodes(&lines(), &[]))
}

/// Whether `-d` has this section.
pub(super) fn has_section(word: &str) -> bool {
    !word.is_empty() && lines().iter().any(|line| line.section().eq_ignore_ascii_case(word))
}

/// The text of `-q`; with sections, only theirs.
pub(super) fn text(device: &Device, sections: &[String]) -> Result<String, Error> {
    let wide = label_width(device.machine());
    let mut text = "\n==============NVSMI LOG==============\n\n".to_owned();
    for mut node in nodes(device)? {
        if node.tag == "attached_gpus" {
            text.push('\n');
        }
        if node.tag == DEVICE {
            let is = |child: &Node, word: &String| child.section.eq_ignore_ascii_case(word);
            node.children.retain(|child| match sections {
                [] => !child.selected,
                _ => sections.iter().any(|word| is(child, word)),
            });
        }
        write_text(&mut text, &node, 0, wide);
    }
    text.push('\n');
    Ok(text)
}

/// Width of labels: that of 580.119.02 in public logs and of later ones, else that of 580.105.08.
fn label_width(machine: &Machine) -> usize {
    if branch(&machine.gpu.driver) < 580 { NARROW } else { 55 }
}

const NARROW: usize = 42;

fn write_text(text: &mut String, node: &Node, depth: usize, wide: usize) {
    let wide = if node.tag == PROCESS { NARROW } else { wide };
    let depth = depth + usize::from(node.deeper);
    let indent = 4 * depth;
    let label = format!("{:indent$}{}", "", node.label);
    let below = depth + usize::from(!node.label.is_empty());
    match &node.value {
        _ if node.label.is_empty() => {}
        Some(value) => text.push_str(&format!("{label:<wide$}: {value}\n")),
        None if node.children.is_empty() => text.push_str(&format!("{label:<wide$}: None\n")),
        None => text.push_str(&format!("{label}\n")),
    }
    for child in &node.children {
        write_text(text, child, below, wide);
    }
}

/// The document of `-q -x`.
pub(super) fn xml(device: &Device) -> Result<String, Error> {
    let version = match branch(&device.machine().gpu.driver) {
        ..525 => 11,
        525..580 => 12,
        580.. => 13,
    };
    let mut text = format!(
        "<?xml version=\"1.0\" ?>\n\
         <!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v{version}.dtd\">\n<nvidia_smi_log>\n"
    );
    for node in nodes(device)? {
        write_xml(&mut text, &node, 1);
    }
    text.push_str("\n</nvidia_smi_log>\n");
    Ok(text)
}

fn write_xml(text: &mut String, node: &Node, depth: usize) {
    let indent = "\t".repeat(depth);
    let tag = node.tag;
    if tag.is_empty() {
        node.children.iter().for_each(|child| write_xml(text, child, depth));
        return;
    }
    if let Some(value) = &node.value {
        text.push_str(&format!("{indent}<{tag}>{}</{tag}>\n", escaped(value)));
        return;
    }
    let id = match node.label.split_once(' ') {
        Some((_, id)) if tag == DEVICE => format!(" id=\"{id}\""),
        _ => String::new(),
    };
    text.push_str(&format!("{indent}<{tag}{id}>\n"));
    node.children.iter().for_each(|child| write_xml(text, child, depth + 1));
    if tag == MIG_DEVICES && node.children.is_empty() {
        text.push_str(&format!("{indent}\tNone\n"));
    }
    text.push_str(&format!("{indent}</{tag}>\n"));
}

fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
