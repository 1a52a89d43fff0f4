//! Which contract a refusal is of.
//!
//! An ERROR is a code and words for people; a client with several contracts in hand must know which of them is meant, or
//! it gives up good ones with the bad. So the words of a refused contract name it, after those of the code:
//!
//! ```text
//! …: contract 0101…01: it ended 5 s ago
//! ```
//!
//! Words that do not are of no contract that is known, and then of all. Whatever they say, they come from the
//! provider, which may stop carrying at any time anyway: by a lie it loses what it would have been paid.

use quell_wire::contract::{ContractId, SignedContract};

use super::verify::ContractRefusal;

const BEGINS: &str = "contract ";

/// Why this form is not honoured, in words that say of which contract it is.
pub(crate) fn refusal_words(form: &[u8], refusal: &ContractRefusal) -> String {
    match SignedContract::decode(form) {
        Ok(contract) => format!("{BEGINS}{}: {refusal}", contract.terms.contract_id),
        Err(_) => refusal.to_string(),
    }
}

/// The contract that such words are of.
pub(crate) fn named_in(words: &str) -> Option<ContractId> {
    let mut parts = words.split(": ");
    let id = parts.find_map(|part| part.strip_prefix(BEGINS))?;
    if id.len() != 32 || !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(id, 16).ok()?;
    Some(ContractId(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::contract;
    use super::*;

    #[test]
    fn words_of_a_refusal_name_their_contract_and_no_others_name_one() {
        let of = contract(0xa7, 1);
        let words = refusal_words(&of.encode(), &ContractRefusal::BadSignature);
        assert!(
            words.ends_with("a7a7: its signature does not hold"),
            "{words}"
        );
        assert_eq!(named_in(&words), Some(of.terms.contract_id));
        assert_eq!(named_in(&words.to_uppercase()), None);
        let shorter = words.replacen("a7", "", 1);
        let signed = words.replacen("a7", "+a", 1);
        for words in [&words[9..], &shorter, &signed, "contract : it", "", "é"] {
            assert_eq!(named_in(words), None, "{words}");
        }
        let told = format!("refused: {words}");
        assert_eq!(named_in(&told), Some(of.terms.contract_id));
        let words = refusal_words(&[1], &ContractRefusal::TooMany);
        assert_eq!(named_in(&words), None);
    }
}
