//! Pages of a list that may change between two of them.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Which part of a list is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// The most items; all without it.
    pub(crate) limit: Option<usize>,
    /// Where the page before it ended.
    pub(crate) cursor: Option<Cursor>,
}

/// The end of a page: the place and a print of its last item. When the list has changed meanwhile the item is looked
/// for, and only when it is gone does the place alone count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    sent: usize,
    print: u64,
}

impl Cursor {
    /// Reads back what `Display` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (sent, print) = text.split_once('-')?;
        Some(Self { sent: sent.parse().ok().filter(|sent| *sent > 0)?, print: u64::from_str_radix(print, 16).ok()? })
    }

    /// How many items of `items` come before the next page.
    fn start<T>(&self, items: &[T], print: impl Fn(&T) -> u64) -> usize {
        let is_last = |item: &T| print(item) == self.print;
        if items.get(self.sent - 1).is_some_and(is_last) {
            return self.sent;
        }
        items.iter().position(is_last).map_or(self.sent.min(items.len()), |position| position + 1)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.sent, self.print)
    }
}

impl Page {
    /// The items of this page, and the cursor of the next one unless this is the last. `identity` tells items apart.
    pub(crate) fn of<T, I: Hash>(&self, mut items: Vec<T>, identity: impl Fn(&T) -> I) -> (Vec<T>, Option<String>) {
        let print = |item: &T| {
            let mut hasher = DefaultHasher::new();
            identity(item).hash(&mut hasher);
            hasher.finish()
        };
        let start = self.cursor.as_ref().map_or(0, |cursor| cursor.start(&items, print));
        let end = self.limit.map_or(items.len(), |limit| start.saturating_add(limit).min(items.len()));
        let is_last = end == items.len();
        items.truncate(end);
        let page = items.split_off(start);
        let next = page.last().filter(|_| !is_last).map(|last| Cursor { sent: end, print: print(last) }.to_string());
        (page, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(items: &[&'static str], limit: usize, cursor: Option<&str>) -> (Vec<&'static str>, Option<String>) {
        let cursor = cursor.map(|text| Cursor::parse(text).unwrap());
        Page { limit: Some(limit), cursor }.of(items.to_vec(), |item| *item)
    }

    #[test]
    fn pages_hold_everything_once_in_order() {
        let items = ["a", "b", "c", "d", "e"];
        for limit in 1..=6 {
            let (mut seen, mut next) = page(&items, limit, None);
            while let Some(cursor) = next {
                let (more, after) = page(&items, limit, Some(&cursor));
                assert!(!more.is_empty() && more.len() <= limit);
                seen.extend(more);
                next = after;
            }
            assert_eq!(seen, items, "{limit} at a time");
        }
    }

    #[test]
    fn without_a_limit_all_is_sent() {
        assert_eq!(Page::default().of(vec![1, 2, 3], |item| *item), (vec![1, 2, 3], None));
        assert_eq!(Page::default().of(Vec::<u8>::new(), |item| *item), (vec![], None));
    }

    #[test]
    fn a_list_that_grew_or_shrank_goes_on_behind_the_item_that_was_last() {
        let (_, next) = page(&["a", "b", "c", "d"], 2, None);
        assert_eq!(page(&["x", "a", "b", "c", "d"], 2, next.as_deref()).0, ["c", "d"]);
        assert_eq!(page(&["b", "c", "d"], 2, next.as_deref()).0, ["c", "d"]);
    }

    #[test]
    fn when_the_last_item_is_gone_its_place_counts() {
        let (_, next) = page(&["a", "b", "c", "d"], 2, None);
        assert_eq!(page(&["a", "c", "d"], 2, next.as_deref()).0, ["d"]);
        assert_eq!(page(&[], 2, next.as_deref()), (vec![], None));
    }

    #[test]
    fn what_is_not_a_cursor_is_refused() {
        for text in ["", "1", "-", "x-0", "1-x", "0-0", "-1-0"] {
            assert!(Cursor::parse(text).is_none(), "{text}");
        }
    }
}
