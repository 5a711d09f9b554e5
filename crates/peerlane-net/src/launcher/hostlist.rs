//! Slurm's lists of hosts: `node[01-03,7],login1`, `rack[1-2]-gpu[1-4]`.

/// The most names that a list may stand for.
const MOST: usize = 100_000;

/// All names that a list stands for, in its order. The error says what is wrong with it.
pub(crate) fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for item in split(list)? {
        if item.is_empty() {
            return Err(format!("'{list}' has an empty name"));
        }
        let mut made = vec![String::new()];
        let mut rest = item;
        while let Some((fixed, after)) = rest.split_once('[') {
            let (ranges, after) = after.split_once(']').ok_or_else(|| format!("'{item}' has no closing bracket"))?;
            let numbers = numbers(ranges)?;
            if made.len() * numbers.len() + names.len() > MOST {
                return Err(format!("'{item}' stands for more than {MOST} names"));
            }
            made = made.iter().flat_map(|name| numbers.iter().map(move |n| format!("{name}{fixed}{n}"))).collect();
            rest = after;
        }
        if rest.contains(']') {
            return Err(format!("'{item}' has no opening bracket"));
        }
        names.extend(made.into_iter().map(|name| name + rest));
    }
    Ok(names)
}

/// The items between commas outside brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return Err(format!("'{list}' has brackets in brackets")),
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    Ok(items)
}

/// The numbers of `01-03,7`, with their leading zeros.
fn numbers(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<usize>().ok().filter(|_| digits).ok_or_else(|| format!("'{range}' is not a range of numbers"))
        };
        let (from, to) = (number(first)?, number(last)?);
        if to < from || to - from >= MOST {
            return Err(format!("'{range}' is not a range of at most {MOST} numbers"));
        }
        let width = first.len();
        numbers.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_slurm_writes_them() {
        for (list, names) in [
            ("node01", "node01"),
            ("node[01-03,7],login1", "node01 node02 node03 node7 login1"),
            ("rack[1-2]-gpu[9-10]", "rack1-gpu9 rack1-gpu10 rack2-gpu9 rack2-gpu10"),
            ("a[098-101]b.example", "a098b.example a099b.example a100b.example a101b.example"),
            ("c-3,c-1", "c-3 c-1"),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), names);
        }
    }

    #[test]
    fn damaged_lists_are_refused() {
        for list in
            ["", "a,,b", "a[1-", "a]", "a[[1]]", "a[2-1]", "a[x-y]", "a[]", "a[1-999999999]", "a[-1]", "a[+1-2]"]
        {
            assert!(expand(list).is_err(), "{list}: {:?}", expand(list));
        }
        assert!(expand("a[1-90000]b[1-90000]").unwrap_err().contains("more than"));
        // every prefix of a good list, cut anywhere, is refused or read: never a panic
        let good = "rack[1-2]-gpu[09-10],ä[1]";
        for (at, _) in good.char_indices() {
            let _ = expand(&good[..at]);
        }
    }
}
