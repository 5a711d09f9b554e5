//! GPU memory that NICs do not take, neither as a dmabuf nor by nvidia-peermem: no GPUDirect RDMA.

use super::missing_peer_module::PEER_MODULES;
use super::nodes;
use super::prelude::*;
use peerlane_machine::transfer::Via;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{FlagKind, NO_GPU_MEMORY};

pub(super) const RULE: Rule = Rule::new("nic-gpu-refused", One(run))
    .explains("missing-peer-module slow-all-reduce")
    .and_nodes(nodes::gpu_memory::refused);

fn run(view: &View) -> Option<Raised> {
    let run = view.case.run()?;
    let (mut refused, mut sound): (Vec<(String, String)>, usize) = (Vec::new(), 0);
    let mut reason = None;
    for cell in &run.cells {
        let Work::Rdma(rdma) = &cell.work else { continue };
        let Some((gpu, nic)) = rdma.gpu() else { continue };
        let why = cell.flag(FlagKind::NotApplicable).map(|flag| flag.detail.as_str());
        match why.filter(|why| why.starts_with(NO_GPU_MEMORY)) {
            Some(why) => {
                refused.push((gpu.to_owned(), nic.to_owned()));
                reason.get_or_insert(why);
            }
            None => sound += usize::from(rdma.via == Via::Direct && cell.value().is_some()),
        }
    }
    let reason = reason?;
    let pairs = distinct(refused);
    let nics = distinct(pairs.iter().map(|(_, nic)| nic.clone()));
    let gpus = distinct(pairs.iter().map(|(gpu, _)| gpu.clone()));
    let takes = verb(&nics, "takes", "take");
    let summary = if pairs.len() == nics.len() * gpus.len() {
        format!("{} {takes} no memory of {}: no GPUDirect RDMA", list(&nics), list(&gpus))
    } else {
        format!("GPU memory is refused between {}: no GPUDirect RDMA there", words::pairs(&pairs))
    };
    let loaded = |name: &str| view.modules().any(|(modules, _)| modules.loaded.contains_key(name));
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(summary)
        .expected(EXPECTED)
        .measured(match sound {
            0 => reason.to_owned(),
            n => format!("{reason}; direct rates that were measured: {n}"),
        })
        .evidence(view.cite_run())
        .fix(fix(PEER_MODULES.into_iter().any(loaded)))
        .confirm(CONFIRM)
        .about(Subject::nodes_of(nics.iter()));
    Some(raised)
}

/// What adapters do where nothing is wrong.
pub(crate) const EXPECTED: &str = "adapters register GPU memory, as a dmabuf or by nvidia-peermem";

/// What shows it without peerlane.
pub(crate) const CONFIRM: &str =
    "`lsmod | grep peermem`; `ib_write_bw --use_cuda=0`, and the same with `--use_cuda_dmabuf`";

/// What to do, by whether the module nvidia-peermem is loaded.
pub(crate) fn fix(module: bool) -> &'static str {
    if module {
        "Install the NVIDIA driver after MLNX_OFED or DOCA and load the module nvidia-peermem again; or use dmabuf: \
         the driver's open kernel modules (515 or newer), Linux 5.12, rdma-core 34. The module is loaded and gives \
         the adapters nothing: it was built without the adapters' driver, or loaded before it."
    } else {
        "Run `modprobe nvidia-peermem` after the adapters' driver loads; or use dmabuf: the driver's open kernel modules (515 or newer), \
         Linux 5.12, rdma-core 34. Until then libraries stage in host memory."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{measured, see_with};
    use peerlane_machine::matrix::Operation;
    use peerlane_machine::transfer::{NicEnd, Rdma};
    use peerlane_measure::plan::Test;
    use peerlane_measure::run::Flag;
    use peerlane_read::catalogue::{Parts, system};

    fn found(cells: &[(&str, &str, Option<&str>)]) -> Option<(String, String)> {
        let machine = system("hgx-h200").unwrap().unwrap();
        let mut case = measured(machine, [(("GPU0", "GPU1"), Ok(394.0))]);
        let run = &mut case.run.as_mut().unwrap().run;
        for (gpu, nic, why) in cells {
            let end = |memory: &str| NicEnd { nic: (*nic).to_owned(), memory: memory.to_owned() };
            let mut cell = run.cells[0].clone();
            cell.test = Test::NicGpu;
            let (from, to, op) = (end(gpu), end("host0"), Operation::Write);
            cell.work = Work::Rdma(Rdma { from, to, op, via: Via::Direct });
            cell.flags = why.iter().map(|why| Flag::new(FlagKind::NotApplicable, *why)).collect();
            run.cells.push(cell);
        }
        see_with(&case, Parts::embedded(), |view| {
            super::run(view).map(|raised| (raised.finding.summary, raised.finding.measured))
        })
    }

    #[test]
    fn refusals_are_named_with_their_reasons() {
        let why = Some("no GPU memory for mlx5_0: dmabuf: the driver exports none; nvidia-peermem: Bad address");
        assert_eq!(found(&[("GPU0", "mlx5_0", None)]), None);
        // what the model does not know is no refusal
        assert_eq!(found(&[("GPU0", "mlx5_0", Some("the model does not predict this"))]), None);
        let (all, said) = found(&[("GPU0", "mlx5_0", why), ("GPU1", "mlx5_0", why)]).unwrap();
        assert_eq!(all, "mlx5_0 takes no memory of GPU0, GPU1: no GPUDirect RDMA");
        assert_eq!(Some(said.as_str()), why);
        let (some, said) =
            found(&[("GPU0", "mlx5_0", why), ("GPU1", "mlx5_1", why), ("GPU1", "mlx5_0", None)]).unwrap();
        assert!(some.starts_with("GPU memory is refused between GPU0 and mlx5_0"), "{some}");
        assert!(said.ends_with("direct rates that were measured: 1"), "{said}");
    }
}
