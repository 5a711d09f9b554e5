//! Once its arguments are known, a command that only reads is confined by the kernel: it opens no socket, starts no program, and
//! creates and writes files only in the folders of the files that it was told to write. What a hostile input may make of a
//! fault in a reader stays within that.
//!
//! Exempt are the commands that measure or look at this machine, which start processes. Used as a library, or from Python,
//! nothing is confined: that is the caller's affair.

use std::ffi::OsString;
use std::path::Path;

use crate::args::Command;
use crate::live;

/// The files that a command writes; `None` where it is exempt.
fn outputs(command: &Command) -> Option<Vec<&Path>> {
    // without a TARGET the first of these look at this machine, where it has a GPU
    let (targets, defaults, outputs): (&[OsString], bool, Vec<Option<&Path>>) = match command {
        Command::Check(args) => (&args.machines.targets, true, vec![args.judgement.html.as_deref()]),
        Command::Map(args) => (&args.machines.targets, true, vec![]),
        Command::Predict(args) => (&args.machines.targets, true, vec![]),
        Command::Report(args) => (&args.machines.targets, true, vec![Some(&args.output)]),
        // [TARGET…] A B
        Command::Explain(args) => {
            (args.words.split_last_chunk::<2>().map_or(&[], |(targets, _)| targets), true, vec![])
        }
        Command::Place(args) => (&args.machines.targets, true, vec![args.topology.as_deref()]),
        Command::Tune(args) if !args.prove => (&args.machines.targets, true, vec![args.output.as_deref()]),
        Command::Simulate(args) => {
            let written = [&args.csv, &args.svg, &args.trace].map(|path| path.as_deref());
            (&args.machines.targets, true, written.into())
        }
        Command::Infer(args) if args.recorded => (&args.machines.targets, false, vec![args.output.as_deref()]),
        Command::Compare(args) => (&args.targets, false, vec![args.html.as_deref()]),
        Command::Fleet(args) => (&args.targets, false, vec![args.judgement.html.as_deref()]),
        Command::Sweep(args) => (&args.targets, false, vec![args.csv.as_deref()]),
        Command::Accuracy(args) => (&args.targets, false, vec![]),
        Command::Plan(args) => (std::slice::from_ref(&args.target), false, vec![]),
        Command::New(args) => (&[], false, vec![Some(&args.file)]),
        Command::Man(args) => (&[], false, vec![args.output.as_deref()]),
        Command::Systems(_) | Command::Completions(_) | Command::Help(_) => (&[], false, vec![]),
        Command::Tune(_)
        | Command::Infer(_)
        | Command::Gather(_)
        | Command::Gate(_)
        | Command::Measure(_)
        | Command::Top(_)
        | Command::Selftest(_)
        | Command::Discover
        | Command::Survey(_)
        | Command::Meter
        | Command::GpuSides
        | Command::Worker => return None,
    };
    let here =
        targets.iter().any(|target| target == "live") || defaults && targets.is_empty() && live::has_nvidia_gpu();
    (!here).then(|| outputs.into_iter().flatten().collect())
}

/// Confines this process, if the command only reads. `Err` says why the kernel does not, which changes nothing else.
pub(crate) fn confine(command: &Command) -> Result<(), String> {
    outputs(command).map_or(Ok(()), |outputs| kernel::confine(&outputs))
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kernel {
    use std::collections::BTreeMap;
    use std::env::consts::ARCH;
    use std::path::Path;

    use landlock::{
        ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetStatus,
    };
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    /// Linux 6.2: the first that also forbids to cut files.
    const RIGHTS: ABI = ABI::V3;

    /// What a process that only reads never calls: sockets, other programs, other processes' memory, and what would run calls
    /// past the filter.
    const FORBIDDEN: [i64; 16] = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_mount,
        libc::SYS_unshare,
    ];

    pub(super) fn confine(outputs: &[&Path]) -> Result<(), String> {
        // both are tried: a kernel may have one of them
        let files = files(outputs);
        let calls = calls();
        files.and(calls)
    }

    /// No file may be made, written, renamed or removed outside the folders of these.
    fn files(outputs: &[&Path]) -> Result<(), String> {
        let refused = |e: &dyn std::fmt::Display| format!("writing is not confined: {e}");
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_write(RIGHTS))
            .and_then(Ruleset::create)
            .map_err(|e| refused(&e))?;
        for output in outputs {
            // beside a file stands what takes its place; what is no file, as /dev/stdout, is opened itself
            let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            for (place, rights) in
                [(folder, AccessFs::from_write(RIGHTS)), (output, AccessFs::WriteFile | AccessFs::Truncate)]
            {
                // what does not exist is reported by who writes it
                if let Ok(opened) = PathFd::new(place) {
                    rules = rules.add_rule(PathBeneath::new(opened, rights)).map_err(|e| refused(&e))?;
                }
            }
        }
        match rules.restrict_self().map_err(|e| refused(&e))?.ruleset {
            RulesetStatus::NotEnforced => Err(refused(&"this kernel has no Landlock")),
            _ => Ok(()),
        }
    }

    fn calls() -> Result<(), String> {
        let refused = |e: &dyn std::fmt::Display| format!("sockets and programs are not forbidden: {e}");
        let rules: BTreeMap<i64, Vec<_>> = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
        let no = SeccompAction::Errno(libc::EPERM as u32);
        let arch = ARCH.try_into().map_err(|e| refused(&e))?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, no, arch).map_err(|e| refused(&e))?;
        let program: BpfProgram = filter.try_into().map_err(|e: seccompiler::BackendError| refused(&e))?;
        seccompiler::apply_filter(&program).map_err(|e| refused(&e))
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod kernel {
    use std::path::Path;

    pub(super) fn confine(_: &[&Path]) -> Result<(), String> {
        Err("nothing is confined: only Linux on x86-64 and aarch64 has what that needs here".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::net::TcpListener;
    use std::process;

    use super::*;

    /// Names the folder in the process that is confined.
    const FOLDER: &str = "PEERLANE_CONFINED_TEST";

    /// Run by the next test in a process of its own, as nothing that is confined is ever free again.
    #[test]
    #[ignore = "a part of the next test"]
    fn confined() {
        let Some(folder) = env::var_os(FOLDER) else { return };
        let folder = Path::new(&folder);
        let output = folder.join("in/page.html");
        kernel::confine(&[&output]).unwrap();
        assert!(fs::read(folder.join("input")).is_ok(), "reading");
        assert!(fs::write(&output, "x").is_ok() && fs::rename(&output, folder.join("in/b.html")).is_ok(), "the output");
        assert!(fs::write(folder.join("elsewhere"), "x").is_err(), "another folder");
        assert!(fs::write(folder.join("input"), "x").is_err(), "an input");
        assert!(fs::remove_file(folder.join("input")).is_err(), "removal of an input");
        assert!(fs::create_dir(folder.join("new")).is_err(), "a new folder");
        assert!(TcpListener::bind("127.0.0.1:0").is_err(), "a socket");
        assert!(process::Command::new("true").status().is_err(), "a program");
        assert!(std::thread::spawn(|| TcpListener::bind("127.0.0.1:0").is_err()).join().unwrap(), "in a thread");
    }

    #[test]
    fn a_confined_process_writes_its_output_alone_and_starts_and_connects_nothing() {
        let folder = env::temp_dir().join(format!("peerlane-confine-{}", process::id()));
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::write(folder.join("input"), "text").unwrap();
        // a kernel without either says so, and there is nothing to hold
        let said = process::Command::new(env::current_exe().unwrap())
            .args(["--exact", "confine::tests::confined", "--ignored", "--nocapture"])
            .env(FOLDER, &folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
        let kept = fs::read_to_string(folder.join("input"));
        fs::remove_dir_all(&folder).unwrap();
        if text.contains("is not confined") || text.contains("are not forbidden") {
            return;
        }
        assert!(said.status.success() && text.contains("1 passed"), "{text}");
        assert_eq!(kept.unwrap(), "text");
    }
}
