//! A long `record.json`, parsed while it is read: its cells one by one, then what is around them.
//!
//! serde reads a stream several times slower than memory, because it copies each text of a
//! flattened struct, and almost all of a long record are the elements of two lists.

use std::io::{BufRead, BufReader, Read};

use gpubench_record::{Cell, CellResult, Json, RunRecord};

const BUFFER_BYTES: usize = 1 << 20;

/// The record in a file; `None` where it is not one of this version, or cannot be read. The reader
/// of whole files then says why, with the line.
pub(super) fn read(file: impl Read) -> Option<RunRecord> {
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut parts = Parts::default();
    loop {
        let bytes = file.fill_buf().ok()?;
        if bytes.is_empty() {
            break;
        }
        parts.feed(bytes)?;
        let count = bytes.len();
        file.consume(count);
    }
    let mut run = RunRecord::from_json(&parts.rest).ok()?;
    run.cells = parts.results;
    run.plan.cells = parts.planned;
    Some(run)
}

/// The two lists whose elements are parsed alone.
#[derive(Clone, Copy)]
enum List {
    /// `cells`, at depth 2.
    Results,
    /// `plan.cells`, at depth 3.
    Planned,
}

/// What may follow between the elements of such a list.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    ElementOrEnd,
    Element,
    CommaOrEnd,
}

/// The parts of a record, as far as it was read.
#[derive(Default)]
struct Parts {
    /// Everything but the elements of the two lists.
    rest: Vec<u8>,
    element: Vec<u8>,
    results: Vec<CellResult>,
    planned: Vec<Cell>,
    depth: usize,
    /// The last string at depth 1 and 2, and the last key there.
    string: Vec<u8>,
    keys: [Vec<u8>; 2],
    is_string: bool,
    is_escaped: bool,
    /// The list that is read, the depth of its elements, and what may follow.
    list: Option<(List, usize, Next)>,
}

impl Parts {
    /// The next bytes of the file; `None` where they cannot follow.
    fn feed(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let count = if self.is_string { self.string(bytes) } else { self.plain(bytes)? };
            bytes = &bytes[count..];
        }
        Some(())
    }

    /// Keeps bytes, in the element that is read or in the rest.
    fn keep(&mut self, bytes: &[u8]) {
        match self.list {
            Some((_, depth, _)) if self.depth > depth => self.element.extend_from_slice(bytes),
            _ => self.rest.extend_from_slice(bytes),
        }
    }

    /// Takes bytes of a string, at most to its end; returns how many.
    fn string(&mut self, bytes: &[u8]) -> usize {
        let special = |byte: &u8| matches!(byte, b'"' | b'\\');
        let (count, is_whole) = match bytes.iter().position(special) {
            _ if self.is_escaped => (1, false),
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        self.is_escaped = is_whole && bytes[count - 1] == b'\\';
        self.is_string = !is_whole || self.is_escaped;
        if self.depth <= self.keys.len() {
            self.string.extend_from_slice(&bytes[..count]);
        }
        self.keep(&bytes[..count]);
        count
    }

    /// Takes bytes outside of strings, at most to the next one that structures them.
    fn plain(&mut self, bytes: &[u8]) -> Option<usize> {
        let special = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b':' | b',');
        let at = bytes.iter().position(special).unwrap_or(bytes.len());
        let is_between = self.list.is_some_and(|(_, depth, _)| depth == self.depth);
        if !is_between {
            self.keep(&bytes[..at]);
        } else if !bytes[..at].trim_ascii().is_empty() {
            return None;
        }
        let Some(&byte) = bytes.get(at) else {
            return Some(at);
        };
        if is_between {
            self.between(byte)?
        } else {
            self.structure(byte)?
        }
        Some(at + 1)
    }

    /// Takes a byte between two elements of a list.
    fn between(&mut self, byte: u8) -> Option<()> {
        let (list, depth, next) = self.list?;
        match (byte, next) {
            (b'{', Next::Element | Next::ElementOrEnd) => {
                self.depth += 1;
                self.keep(b"{");
            }
            (b',', Next::CommaOrEnd) => self.list = Some((list, depth, Next::Element)),
            (b']', Next::CommaOrEnd | Next::ElementOrEnd) => {
                self.list = None;
                self.structure(b']')?;
            }
            _ => return None,
        }
        Some(())
    }

    fn structure(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'{' | b'[' => {
                self.keep(&[byte]);
                self.depth += 1;
                if byte == b'[' && self.list.is_none() {
                    self.list = self.opened().map(|list| (list, self.depth, Next::ElementOrEnd));
                }
                return Some(());
            }
            b'}' | b']' => {
                self.keep(&[byte]);
                self.depth = self.depth.checked_sub(1)?;
                return self.closed();
            }
            b'"' => {
                self.is_string = true;
                self.string.clear();
            }
            b':' if (1..=self.keys.len()).contains(&self.depth) => {
                let key = &mut self.keys[self.depth - 1];
                std::mem::swap(key, &mut self.string);
            }
            _ => {}
        }
        self.keep(&[byte]);
        Some(())
    }

    /// The list that begins here.
    fn opened(&self) -> Option<List> {
        const CELLS: &[u8] = b"cells\"";
        match (self.depth, self.keys.each_ref().map(Vec::as_slice)) {
            (2, [CELLS, _]) => Some(List::Results),
            (3, [b"plan\"", CELLS]) => Some(List::Planned),
            _ => None,
        }
    }

    /// Parses an element that ends here.
    fn closed(&mut self) -> Option<()> {
        let Some((list, depth, _)) = self.list.filter(|&(_, depth, _)| depth == self.depth) else {
            return Some(());
        };
        match list {
            List::Results => self.results.push(CellResult::from_json(&self.element).ok()?),
            List::Planned => self.planned.push(Cell::from_json(&self.element).ok()?),
        }
        self.element.clear();
        self.list = Some((list, depth, Next::CommaOrEnd));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::Json;
    use gpubench_sample_records::{all, real};

    use super::{Parts, read};

    #[test]
    fn a_record_reads_as_it_does_from_memory() -> serde_json::Result<()> {
        for (_, run) in all() {
            for json in [run.to_json()?, serde_json::to_string_pretty(&run)?] {
                assert_eq!(read(json.as_bytes()), Some(run.clone()));
                // Wherever a buffer ends.
                let mut parts = Parts::default();
                assert!(json.as_bytes().chunks(7).all(|bytes| parts.feed(bytes).is_some()));
                assert_eq!((&parts.results, &parts.planned), (&run.cells, &run.plan.cells));
            }
        }
        Ok(())
    }

    #[test]
    fn what_the_reader_of_whole_files_refuses_is_not_read() -> serde_json::Result<()> {
        let json = real().to_json()?;
        let list = json.find("\"cells\":[{").expect("a list of cells") + 9;
        for (place, text) in [(list, ","), (list, "1,"), (list, "{}"), (list + 1, "}"), (0, "]")] {
            let mut wrong = json.clone();
            wrong.insert_str(place, text);
            assert!(serde_json::from_str::<serde_json::Value>(&wrong).is_err() || text == "1,");
            assert_eq!(read(wrong.as_bytes()), None, "{text}");
        }
        assert_eq!(read(&json.as_bytes()[..json.len() - 1]), None);
        Ok(())
    }
}
