//! A page with many objects, for browsers: `GET /gallery/N` names N pictures, each `GET /picture/K`.
//!
//! The page counts what it sees: once everything is loaded its body says `N of N pictures`, so that whoever reads the
//! document knows how many arrived and could be shown, without asking the server.

use std::fmt::Write as _;

/// Most pictures of a page.
const PICTURES_MAX: usize = 1_000;

/// The page; `None` where no number of pictures is named, or too many.
pub(super) fn page(count: &str) -> Option<String> {
    let count: usize = count.parse().ok()?;
    if count > PICTURES_MAX {
        return None;
    }
    let mut page = String::from("<!doctype html><title>gallery</title><p id=seen>none yet</p>\n");
    for number in 0..count {
        let _ = writeln!(page, "<img src=\"/picture/{number}\" alt=\"{number}\">");
    }
    page.push_str(
        "<script>addEventListener('load', () => {\n\
         const all = [...document.images];\n\
         const seen = all.filter(image => image.naturalWidth > 0);\n\
         document.getElementById('seen').textContent = `${seen.length} of ${all.length} pictures`;\n\
         });</script>\n",
    );
    Some(page)
}

/// A picture, in a colour of its own; `None` where no number is named.
pub(super) fn picture(number: &str) -> Option<String> {
    let number: u16 = number.parse().ok()?;
    let hue = u32::from(number) * 37 % 360;
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"40\">\
         <circle cx=\"20\" cy=\"20\" r=\"18\" fill=\"hsl({hue} 80% 50%)\"/></svg>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_as_many_pictures_as_were_asked_for() {
        let named = |count: &str| page(count).map(|page| page.matches("<img ").count());
        assert_eq!(named("0"), Some(0));
        assert_eq!(named("50"), Some(50));
        assert_eq!(named("1000"), Some(1_000));
        assert_eq!(named("1001"), None);
        assert_eq!(named("many"), None);
        assert!(picture("65535").is_some() && picture("65536").is_none());
    }
}
