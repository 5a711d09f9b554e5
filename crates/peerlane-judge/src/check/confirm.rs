//! Commands that would confirm or refute a finding.

use peerlane_machine::subject::Subject;

/// Pairs or GPUs that a command names; more than these would not fit a line.
const NAMED: usize = 4;

/// A measurement of the families `tests` between the subjects alone.
pub(super) fn pairs(tests: &str, subjects: &[Subject]) -> String {
    let named: Vec<String> = subjects.iter().take(NAMED).map(Subject::to_string).collect();
    if named.is_empty() {
        return format!("`peerlane measure --tests {tests}`");
    }
    format!("`peerlane measure --tests {tests} --pairs {}`", named.join(","))
}

/// The width that links run at; they have to be busy meanwhile.
pub(super) const WIDTH: &str = "`nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current --format=csv` \
                                while `peerlane measure --tests host` runs";

/// The width of the link of a device that is no GPU, or of one whose tool is not known.
pub(super) const WIDTH_OF_DEVICE: &str = "`lspci -vvv -s DEVICE | grep -E 'LnkCap|LnkSta'` under load";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_few_pairs() {
        let pair = |i| Subject::Pair("GPU0".to_owned(), format!("GPU{i}"));
        let subjects: Vec<Subject> = (1..9).map(pair).collect();
        let command = pairs("pairs", &subjects);
        assert_eq!(command, "`peerlane measure --tests pairs --pairs GPU0-GPU1,GPU0-GPU2,GPU0-GPU3,GPU0-GPU4`");
        assert_eq!(pairs("pairs,host", &[]), "`peerlane measure --tests pairs,host`");
    }
}
