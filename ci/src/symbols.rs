//! Lists of the symbols that the vendor's driver libraries export, from public sources.
//!
//! A stand-in for a library must export every name, also those that it does not implement. C
//! headers give the declarations and the `#define`s that redirect a name to a version (`_v2`) or to
//! its per-thread-stream form (`_ptds`, `_ptsz`). Bindings in other languages give older and newer
//! names. Both sides of every `#if` count, because drivers export both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::tree::CiError;
use crate::scan::{Kind, tokens};

/// Reads `sources` and writes every symbol that starts with `prefix`, sorted, to `out`.
pub fn run(prefix: &str, sources: &[PathBuf], out: &Path) -> Result<usize, CiError> {
    let mut symbols = BTreeSet::new();
    for path in sources {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| CiError::Read { path: shown.clone(), source })?;
        let extension = path.extension().unwrap_or_default();
        let found = match extension.to_str() {
            Some("h") => in_header(&text, prefix),
            Some("pxd") => in_cython(&text, prefix),
            _ => in_bindings(&text, prefix),
        };
        if found.is_empty() {
            let message = format!("{shown}: no symbol starts with {prefix:?} here");
            return Err(CiError::Found(message));
        }
        symbols.extend(found);
    }
    let list: String = symbols.iter().map(|symbol| format!("{symbol}\n")).collect();
    std::fs::write(out, list)
        .map_err(|source| CiError::Write { path: out.display().to_string(), source })?;
    Ok(symbols.len())
}

/// Symbols that a C header declares or redirects to.
fn in_header(text: &str, prefix: &str) -> BTreeSet<String> {
    let plain = without_comments(text).replace("\\\n", " ");
    let (directives, code): (Vec<&str>, Vec<&str>) =
        plain.lines().partition(|line| line.trim_start().starts_with('#'));
    let code = code.join("\n");
    let statements = code.split([';', '{', '}']);
    let mut declared: BTreeSet<String> = statements
        .filter_map(|statement| declaration(statement, prefix))
        .map(str::to_owned)
        .collect();
    let redirected: Vec<Vec<String>> = directives
        .iter()
        .filter_map(|directive| redirection(directive, prefix))
        // Types have the same redirections: only declared functions count.
        .filter(|names| names.iter().any(|name| declared.contains(name)))
        .collect();
    declared.extend(redirected.into_iter().flatten());
    declared
}

/// The function that the statement declares; inline definitions are not exported.
fn declaration<'a>(statement: &'a str, prefix: &str) -> Option<&'a str> {
    let open = statement.find('(')?;
    let mut before = statement[..open].split(|c: char| c.is_whitespace() || c == '*');
    let words: Vec<&str> = before.by_ref().filter(|word| !word.is_empty()).collect();
    let (name, others) = words.split_last()?;
    let is_local = |word: &&str| ["static", "inline", "typedef", "return"].contains(word);
    let is_declared = is_symbol(name, prefix) && !others.is_empty();
    (is_declared && !others.iter().any(is_local)).then_some(name)
}

/// All names that `#define NAME OTHER` and `#define NAME WRAP(OTHER)` stand for.
fn redirection(directive: &str, prefix: &str) -> Option<Vec<String>> {
    let rest = directive.trim_start().strip_prefix('#')?.trim_start();
    let mut words = rest.strip_prefix("define")?.split_whitespace();
    let (name, body) = (words.next()?, words.next()?);
    let (wrap, target) = match body.split_once('(') {
        Some((wrap, inner)) => (wrap, inner.strip_suffix(')')?),
        None => ("", body),
    };
    if !is_symbol(name, prefix) || !is_symbol(target, prefix) {
        return None;
    }
    let mut names = vec![name.to_owned(), target.to_owned()];
    match wrap {
        "" => {}
        "__CUDA_API_PTDS" => names.push(format!("{target}_ptds")),
        "__CUDA_API_PTSZ" => names.push(format!("{target}_ptsz")),
        _ => return None,
    }
    Some(names)
}

/// Symbols that a Cython declaration file declares, one per line.
fn in_cython(text: &str, prefix: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("cdef "));
    let symbols = lines.filter_map(|line| declaration(line, prefix));
    symbols.map(str::to_owned).collect()
}

/// Symbols that bindings in Rust or Python look up by name: the only argument of a call.
fn in_bindings(text: &str, prefix: &str) -> BTreeSet<String> {
    let scanned = tokens(text);
    let called = scanned.windows(3).filter(|three| {
        three[0].text == "(" && three[1].kind == Kind::Literal && three[2].text == ")"
    });
    let bare = called.map(|three| {
        let inside = three[1].text.trim_start_matches('b').trim_matches('"');
        inside.trim_end_matches("\\0")
    });
    let symbols = bare.filter(|name| is_symbol(name, prefix));
    symbols.map(str::to_owned).collect()
}

/// Whether this is the name of a function: prefix, capital letter, and not a type (`_t`, `_st`).
fn is_symbol(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    let is_word = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_type = ["_t", "_st", "_enum"].iter().any(|end| rest.ends_with(end));
    rest.starts_with(|c: char| c.is_ascii_uppercase()) && is_word && !is_type
}

/// C comments replaced by blanks; unlike Rust's, they do not nest.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            1
        };
        plain.push(' ');
        rest = &rest[length..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"
        // CUresult cuCommented(int a);
        /* #define cuGone cuGone_v2 /* CUresult cuInBlock(void); */
        #define cuMemAlloc      cuMemAlloc_v2
        #define cuMemcpy        __CUDA_API_PTDS(cuMemcpy)
        #define cuCopyAsync \
            __CUDA_API_PTSZ(cuCopyAsync_v2)
        #define cuType_v1 cuType
        #define nvmlTop_t nvmlTop_v1_t
        typedef CUresult (CUDAAPI *PFN_cuInit)(unsigned int Flags);
        typedef int (*cuCallback)(int);
        CUresult CUDAAPI cuInit(unsigned int Flags);
        CUresult CUDAAPI
        cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
        __CUDA_DEPRECATED CUresult CUDAAPI cuMemcpy(CUdeviceptr dst);
        const char *cuName(void);
        CUresult CUDAAPI cuCopyAsync(int a);
        #if defined(OLD)
        #undef cuMemAlloc
        CUresult CUDAAPI cuCtxAttach(CUcontext *pctx);
        #endif
        static inline CUresult cuHelper(int a) { return cuInner(a); }
    "#;

    fn names(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn headers_give_declarations_versions_and_stream_forms() {
        let expected = [
            "cuCopyAsync",
            "cuCopyAsync_v2",
            "cuCopyAsync_v2_ptsz",
            "cuCtxAttach",
            "cuInit",
            "cuMemAlloc",
            "cuMemAlloc_v2",
            "cuMemcpy",
            "cuMemcpy_ptds",
            "cuName",
        ];
        assert_eq!(names(&in_header(HEADER, "cu")), expected);
    }

    #[test]
    fn each_library_has_its_prefix() {
        let header = "#define nvmlInit nvmlInit_v2\nnvmlReturn_t DECLDIR nvmlInit_v2(void);\n\
                      nvmlReturn_t DECLDIR nvmlTop(nvmlTop_t *t);\nCUresult cuInit(void);";
        let expected = ["nvmlInit", "nvmlInit_v2", "nvmlTop"];
        assert_eq!(names(&in_header(header, "nvml")), expected);
    }

    #[test]
    fn bindings_give_the_names_they_look_up() {
        let rust = concat!(
            r#"library.get(b"nvmlInit\0"); load::<_F>("nvmlTop_v2"); ("nvmlField", 1);"#,
            r#"f("nvml top"); // f("nvmlA")"#
        );
        assert_eq!(names(&in_bindings(rust, "nvml")), ["nvmlInit", "nvmlTop_v2"]);
        let cython = "cdef nvmlReturn_t nvmlTop(int a) nogil\n# cdef int nvmlGone(int a)";
        assert_eq!(names(&in_cython(cython, "nvml")), ["nvmlTop"]);
        let python = "fn = _find(\"nvmlShutdown\")";
        assert_eq!(names(&in_bindings(python, "nvml")), ["nvmlShutdown"]);
    }

    #[test]
    fn a_source_without_symbols_is_refused() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let out = std::env::temp_dir().join("gpubench-ci-no-symbols.txt");
        let error = run("cu", &[here], &out).unwrap_err().to_string();
        assert!(error.contains("no symbol starts with \"cu\""), "{error}");
        assert!(!out.exists());
    }

    #[test]
    fn the_checked_in_lists_are_sorted_and_have_every_form() {
        let folder = crate::tree::repository_root().join("harness/virtual-gpu/abi/src/stubs");
        let landmarks: [(&str, &str, &[&str]); 2] = [
            ("cuda.txt", "cu", &["cuInit", "cuMemAlloc", "cuMemAlloc_v2", "cuMemcpyHtoD_v2_ptds"]),
            ("nvml.txt", "nvml", &["nvmlInit", "nvmlInit_v2"]),
        ];
        for (file, prefix, expected) in landmarks {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            let listed: Vec<&str> = text.lines().collect();
            assert!(listed.is_sorted_by(|a, b| a < b), "{file}");
            assert!(listed.iter().all(|name| is_symbol(name, prefix)), "{file}");
            assert!(expected.iter().all(|name| listed.contains(name)), "{file}");
        }
    }
}
