//! `[simulated]` and `[[faults]]` of a system file → how a simulated machine of it answers.

use std::ops::Range;

use toml::Spanned;

use super::file::{FaultEntry, SimulatedEntry, SystemFile};
use super::names::{find_node, listed};
use super::problems::{Problems, SystemError};
use super::source::Source;
use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::{Fabric, Interconnect, LinkId, LinkKind, NodeId, NodeKind, PcieWidth};
use peerlane_machine::fault::{Fault, Planted};

/// Samples until a cold GPU is warm, where a file does not state it.
const COLD_SAMPLES: usize = 20;

/// The most noise that a file may request: with more, rates mean nothing.
const MOST_NOISE: f64 = 0.5;

/// The most errors for each 10⁹ bytes.
const MOST_ERRORS: f64 = 1e6;

/// How a file wants its simulated machine to answer. Faults are checked against the design, which they leave as it is.
pub(super) fn read(system: &SystemFile, source: &Source, fabric: &Fabric, problems: &mut Problems) -> Planted {
    let mut planted = Planted::default();
    if let Some(SimulatedEntry { noise, seed }) = &system.simulated {
        if let Some(noise) = noise {
            if !(0.0..=MOST_NOISE).contains(noise.get_ref()) {
                let message = format!("`noise` is a share from 0 to {MOST_NOISE}, such as 0.003");
                problems.keep::<()>(Err(source.error(noise.span(), message)));
            }
            planted.noise = *noise.get_ref();
        }
        planted.seed = seed.unwrap_or(planted.seed);
    }
    let reading = Reading { source, fabric };
    planted.faults =
        system.faults.iter().filter_map(|entry| problems.keep_of(&entry.span(), reading.fault(entry))).collect();
    planted
}

struct Reading<'a> {
    source: &'a Source<'a>,
    fabric: &'a Fabric,
}

impl Reading<'_> {
    fn fault(&self, entry: &Spanned<FaultEntry>) -> Result<Fault, SystemError> {
        let (at, e) = (entry.span(), entry.get_ref());
        self.belongings(&at, e)?;
        let factor = || self.factor(&at, e);
        let gpu = |name: &Spanned<String>| self.gpu(name);
        match e {
            FaultEntry { link: Some(link), pcie: Some(width), .. } => self.width(link, width),
            FaultEntry { link: Some(link), nvlink: Some(bricks), .. } => self.bricks(link, bricks),
            FaultEntry { from: Some(from), to: Some(to), .. } => self.slow(from, to, factor()?),
            FaultEntry { p2p_off: Some(names), .. } => Ok(Fault::PeerOff { pair: self.pair_with_nic(names)? }),
            FaultEntry { hang: Some(names), .. } => Ok(Fault::Hang { pair: self.pair_or_nics(names)? }),
            FaultEntry { corrupt: Some(names), .. } => Ok(Fault::Corrupt { pair: self.pair_or_nics(names)? }),
            FaultEntry { lost: Some(name), .. } => {
                Ok(Fault::Lost { gpu: gpu(name)?, after: e.after.unwrap_or_default() })
            }
            FaultEntry { throttle: Some(name), .. } => Ok(Fault::Throttle { gpu: gpu(name)?, factor: factor()? }),
            FaultEntry { bimodal: Some(name), .. } => Ok(Fault::Bimodal { gpu: gpu(name)?, factor: factor()? }),
            FaultEntry { cold: Some(name), .. } => {
                let samples = e.samples.unwrap_or(COLD_SAMPLES);
                Ok(Fault::Cold { gpu: gpu(name)?, factor: factor()?, samples })
            }
            FaultEntry { detour: Some(name), .. } => self.detour(name),
            FaultEntry { errors: Some(name), .. } => self.errors(&at, name, e),
            FaultEntry { link: Some(_), .. } => Err(self
                .source
                .error(at, "a fault of a link needs what is left of it: pcie = \"3.0 x4\" or nvlink = 16")),
            _ => Err(self.source.error(at, "a slow direction has two ends: from = \"GPU0\", to = \"GPU1\"")),
        }
    }

    /// Refuses entries of no kind, of several kinds, and with keys of another kind.
    fn belongings(&self, at: &Range<usize>, e: &FaultEntry) -> Result<(), SystemError> {
        let slow = e.from.is_some() || e.to.is_some();
        let (link, lost, cold) = (e.link.is_some(), e.lost.is_some(), e.cold.is_some());
        let (throttle, bimodal) = (e.throttle.is_some(), e.bimodal.is_some());
        let (detour, errors) = (e.detour.is_some(), e.errors.is_some());
        let of_pair = [e.p2p_off.is_some(), e.hang.is_some(), e.corrupt.is_some()];
        let kinds = [link, slow, lost, throttle, bimodal, cold, detour, errors].into_iter().chain(of_pair);
        if kinds.filter(|k| *k).count() != 1 {
            let message = "a fault has exactly one of link = [\"GPU0\", \"plx0\"], from = \"GPU0\" (with `to`), \
                           p2p_off = [\"GPU0\", \"GPU1\"], hang = […], corrupt = […], lost = \"GPU2\", \
                           throttle = \"GPU1\", bimodal = \"GPU1\", cold = \"GPU0\", detour = \"GPU0\", \
                           errors = \"GPU0\"";
            return Err(self.source.error(at.clone(), message));
        }
        let scaled = slow || throttle || bimodal || cold;
        let astray = [
            (e.pcie.is_some() && !link, "`pcie` belongs to a fault with `link`"),
            (e.nvlink.is_some() && !link, "`nvlink` belongs to a fault with `link`"),
            (e.pcie.is_some() && e.nvlink.is_some(), "a link is either of pcie = \"3.0 x4\" or of nvlink = 16"),
            (e.factor.is_some() && !scaled, "`factor` belongs to a fault with `from`, `throttle`, `bimodal` or `cold`"),
            (e.after.is_some() && !lost, "`after` belongs to a fault with `lost`"),
            (e.samples.is_some() && !cold, "`samples` belongs to a fault with `cold`"),
            (e.counter.is_some() && !errors, "`counter` belongs to a fault with `errors`"),
            (e.per_gb.is_some() && !errors, "`per_gb` belongs to a fault with `errors`"),
        ];
        match astray.iter().find(|(is, _)| *is) {
            Some((_, message)) => Err(self.source.error(at.clone(), message)),
            None => Ok(()),
        }
    }

    fn factor(&self, at: &Range<usize>, entry: &FaultEntry) -> Result<f64, SystemError> {
        let usable = |factor: &f64| *factor >= 0.001 && *factor < 1.0;
        entry.factor.filter(usable).ok_or_else(|| {
            let message = "this fault needs the share of the rate that is left, from 0.001 to below 1: factor = 0.5";
            self.source.error(at.clone(), message)
        })
    }

    fn find(&self, name: &Spanned<String>) -> Result<NodeId, SystemError> {
        find_node(self.source, self.fabric, name)
    }

    fn name(&self, id: NodeId) -> String {
        self.fabric.node(id).name.clone()
    }

    fn gpu(&self, name: &Spanned<String>) -> Result<String, SystemError> {
        let id = self.find(name)?;
        if self.fabric.node(id).kind != NodeKind::Gpu {
            let gpus: Vec<String> = self.fabric.of_kind(NodeKind::Gpu).map(|id| self.name(id)).collect();
            let known = listed(gpus.iter().map(String::as_str));
            let message = format!("'{}' is no GPU; write one of: {known}", name.get_ref());
            return Err(self.source.error(name.span(), message));
        }
        Ok(self.name(id))
    }

    /// Two GPUs, or two NICs, which may be one: its loopback.
    fn pair_or_nics(&self, names: &[Spanned<String>; 2]) -> Result<[String; 2], SystemError> {
        let [a, b] = [self.find(&names[0])?, self.find(&names[1])?];
        let both = |kind| [a, b].iter().all(|id| self.fabric.node(*id).kind == kind);
        if both(NodeKind::Nic) { Ok([self.name(a), self.name(b)]) } else { self.pair_with_nic(names) }
    }

    /// Two GPUs, or one and a NIC, in any order.
    fn pair_with_nic(&self, names: &[Spanned<String>; 2]) -> Result<[String; 2], SystemError> {
        let [a, b] = [self.find(&names[0])?, self.find(&names[1])?];
        let kinds = [a, b].map(|id| self.fabric.node(id).kind);
        let mixed = kinds.contains(&NodeKind::Gpu) && kinds.contains(&NodeKind::Nic);
        if mixed { Ok([self.name(a), self.name(b)]) } else { self.pair(names) }
    }

    fn pair(&self, names: &[Spanned<String>; 2]) -> Result<[String; 2], SystemError> {
        let [a, b] = [self.gpu(&names[0])?, self.gpu(&names[1])?];
        if a == b {
            return Err(self.source.error(names[1].span(), format!("a pair is of two GPUs, and '{a}' is one")));
        }
        Ok([a, b])
    }

    /// The nodes that a name may mean in a link: `cpu0` its root complexes too, a port the card that it is on.
    fn ends(&self, id: NodeId) -> Vec<NodeId> {
        let inside = |(link, far): &(LinkId, NodeId)| {
            let kinds = (self.fabric.node(id).kind, self.fabric.node(*far).kind);
            let stands = matches!(kinds, (NodeKind::Cpu, NodeKind::RootComplex) | (_, NodeKind::Card));
            (stands && matches!(self.fabric.link(*link).kind, LinkKind::OnDie | LinkKind::OnCard)).then_some(*far)
        };
        std::iter::once(id).chain(self.fabric.links_of(id).iter().filter_map(inside)).collect()
    }

    /// The link of a kind that joins two nodes, with its ends in their order.
    fn joined(&self, a: NodeId, b: NodeId, is: impl Fn(&LinkKind) -> bool) -> Option<(LinkId, [NodeId; 2])> {
        let from = self.ends(a);
        let to = self.ends(b);
        from.into_iter().find_map(|a| {
            let mut links = self.fabric.links_of(a).iter();
            let found = links.find(|(link, far)| to.contains(far) && is(&self.fabric.link(*link).kind));
            found.map(|(link, far)| (*link, [a, *far]))
        })
    }

    fn link(
        &self,
        names: &[Spanned<String>; 2],
        what: &str,
        is: impl Fn(&LinkKind) -> bool,
    ) -> Result<(LinkId, [String; 2]), SystemError> {
        let (a, b) = (self.find(&names[0])?, self.find(&names[1])?);
        let (link, ends) = self.joined(a, b, &is).ok_or_else(|| {
            let of_first = self.ends(a).into_iter().flat_map(|a| self.fabric.links_of(a));
            let far = of_first.filter(|(link, _)| is(&self.fabric.link(*link).kind)).map(|(_, far)| self.name(*far));
            let far: Vec<String> = far.collect();
            let message = format!(
                "no {what} link joins '{}' and '{}'; those of '{}' lead to: {}",
                names[0].get_ref(),
                names[1].get_ref(),
                names[0].get_ref(),
                listed(far.iter().map(String::as_str))
            );
            self.source.error(names[0].span(), message)
        })?;
        Ok((link, ends.map(|id| self.name(id))))
    }

    fn width(&self, names: &[Spanned<String>; 2], text: &Spanned<String>) -> Result<Fault, SystemError> {
        let (id, link) = self.link(names, "PCIe", |kind| matches!(kind, LinkKind::Pcie { .. }))?;
        let width: PcieWidth = text.get_ref().parse().map_err(|e| self.source.error(text.span(), e))?;
        let design = match &self.fabric.link(id).kind {
            LinkKind::Pcie { running, .. } => *running,
            _ => PcieWidth::default(),
        };
        let left =
            PcieWidth { generation: width.generation.or(design.generation), lanes: width.lanes.or(design.lanes) };
        let above = left.generation > design.generation && design.generation.is_some()
            || left.lanes > design.lanes && design.lanes.is_some();
        if above || left == design {
            let message = format!("the link is {design} by design; write what is left of it, as in pcie = \"x1\"");
            return Err(self.source.error(text.span(), message));
        }
        Ok(Fault::Width { link, width: left })
    }

    fn bricks(&self, names: &[Spanned<String>; 2], left: &Spanned<u8>) -> Result<Fault, SystemError> {
        let (id, link) = self.link(names, "NVLink", |kind| kind.bundle(Interconnect::Nvlink).is_some())?;
        let bricks = *left.get_ref();
        let design = self.fabric.link(id).kind.bundle(Interconnect::Nvlink).and_then(|b| b.links).unwrap_or(0);
        if bricks >= design {
            let message = format!("the link has {design} bricks by design; write how many of them are left, or 0");
            return Err(self.source.error(left.span(), message));
        }
        Ok(Fault::Bricks { link, bricks })
    }

    fn detour(&self, name: &Spanned<String>) -> Result<Fault, SystemError> {
        let gpu = self.gpu(name)?;
        if self.fabric.find(&gpu).is_none_or(|id| self.fabric.nvlinks_of(id) == 0) {
            return Err(self.source.error(name.span(), format!("'{gpu}' has no NVLinks that data could leave unused")));
        }
        Ok(Fault::Detour { gpu })
    }

    fn errors(&self, at: &Range<usize>, name: &Spanned<String>, e: &FaultEntry) -> Result<Fault, SystemError> {
        let gpu = self.gpu(name)?;
        let (Some(counter), Some(per_gb)) = (&e.counter, &e.per_gb) else {
            let message =
                "errors need what counts them and how many there are: counter = \"nvlink-replay\", per_gb = 2.0";
            return Err(self.source.error(at.clone(), message));
        };
        let of_gpus = || ErrorCounter::ALL.into_iter().filter(|counter| !counter.is_port());
        let Some(known) = of_gpus().find(|known| known.name() == counter.get_ref()) else {
            let known = listed(of_gpus().map(ErrorCounter::name));
            let message = format!("'{}' is no counter of a GPU; write one of: {known}", counter.get_ref());
            return Err(self.source.error(counter.span(), message));
        };
        if !(*per_gb.get_ref() > 0.0 && *per_gb.get_ref() <= MOST_ERRORS) {
            let message = format!("`per_gb` is a number of errors above 0 and up to {MOST_ERRORS}");
            return Err(self.source.error(per_gb.span(), message));
        }
        Ok(Fault::Errors { gpu, counter: known, per_gb: *per_gb.get_ref() })
    }

    fn slow(&self, from: &Spanned<String>, to: &Spanned<String>, factor: f64) -> Result<Fault, SystemError> {
        let (a, b) = (self.find(from)?, self.find(to)?);
        // within a package or a card no limit is known that could be less
        let limited = |kind: &LinkKind| !matches!(kind, LinkKind::OnDie | LinkKind::OnCard);
        let endpoints = a != b && [a, b].iter().all(|id| self.fabric.node(*id).kind.is_endpoint());
        let [from_end, to_end] = match self.joined(a, b, limited) {
            Some((_, ends)) => ends,
            None if endpoints => [a, b],
            None => {
                let message = format!(
                    "'{}' and '{}' are neither joined by a link nor two of GPUs, NICs and host memories; write such",
                    from.get_ref(),
                    to.get_ref()
                );
                return Err(self.source.error(from.span(), message));
            }
        };
        Ok(Fault::Slow { from: self.name(from_end), to: self.name(to_end), factor })
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::{System, read_design, system_text};
    use peerlane_machine::counter::ErrorCounter;
    use peerlane_machine::fault::{Fault, NOISE, Planted};
    use peerlane_machine::machine::Machine;

    fn with(system: &str, faults: &str) -> Result<System, String> {
        let text = format!("{}\n{faults}", system_text(system).unwrap());
        read_design(&text, "bad.toml").map_err(|e| e.to_string())
    }

    fn fault(system: &str, keys: &str) -> Result<Fault, String> {
        let system = with(system, &format!("[[faults]]\n{keys}\n"))?;
        assert_eq!(system.planted.faults.len(), 1, "{keys}");
        Ok(system.planted.faults[0].clone())
    }

    fn pair(a: &str, b: &str) -> [String; 2] {
        [a.to_owned(), b.to_owned()]
    }

    #[test]
    fn each_kind_of_fault_is_read() {
        let width = |text: &str| text.parse().unwrap();
        let (gpu1, gpu2) = ("GPU1".to_owned(), "GPU2".to_owned());
        let cases = [
            (
                "link = [\"GPU0\", \"cpu0\"]\npcie = \"3.0 x4\"",
                Fault::Width { link: pair("GPU0", "rc0"), width: width("3.0 x4") },
            ),
            (
                "link = [\"rc0\", \"GPU1\"]\npcie = \"x8\"",
                Fault::Width { link: pair("rc0", "GPU1"), width: width("5.0 x8") },
            ),
            (
                "link = [\"GPU0\", \"nvswitch\"]\nnvlink = 16",
                Fault::Bricks { link: pair("GPU0", "nvswitch"), bricks: 16 },
            ),
            (
                "from = \"GPU1\"\nto = \"GPU2\"\nfactor = 0.5",
                Fault::Slow { from: gpu1.clone(), to: gpu2.clone(), factor: 0.5 },
            ),
            (
                "from = \"cpu0\"\nto = \"GPU2\"\nfactor = 0.5",
                Fault::Slow { from: "rc0".to_owned(), to: gpu2.clone(), factor: 0.5 },
            ),
            ("p2p_off = [\"GPU0\", \"GPU1\"]", Fault::PeerOff { pair: pair("GPU0", "GPU1") }),
            ("hang = [\"GPU0\", \"GPU1\"]", Fault::Hang { pair: pair("GPU0", "GPU1") }),
            ("corrupt = [\"GPU0\", \"GPU1\"]", Fault::Corrupt { pair: pair("GPU0", "GPU1") }),
            ("lost = \"GPU2\"\nafter = 5", Fault::Lost { gpu: gpu2.clone(), after: 5 }),
            ("lost = \"GPU2\"", Fault::Lost { gpu: gpu2, after: 0 }),
            ("throttle = \"GPU1\"\nfactor = 0.7", Fault::Throttle { gpu: gpu1.clone(), factor: 0.7 }),
            ("bimodal = \"GPU1\"\nfactor = 0.9", Fault::Bimodal { gpu: gpu1.clone(), factor: 0.9 }),
            ("detour = \"GPU1\"", Fault::Detour { gpu: gpu1.clone() }),
            (
                "errors = \"GPU1\"\ncounter = \"nvlink-replay\"\nper_gb = 2.0",
                Fault::Errors { gpu: gpu1.clone(), counter: ErrorCounter::NvlinkReplay, per_gb: 2.0 },
            ),
            ("cold = \"GPU1\"\nfactor = 0.8", Fault::Cold { gpu: gpu1.clone(), factor: 0.8, samples: 20 }),
            ("cold = \"GPU1\"\nfactor = 0.8\nsamples = 3", Fault::Cold { gpu: gpu1, factor: 0.8, samples: 3 }),
        ];
        for (keys, expected) in cases {
            assert_eq!(fault("h200x4-vm", keys), Ok(expected), "{keys}");
        }
        // a GPU and a NIC
        for (key, is) in [("hang", "Hang"), ("corrupt", "Corrupt"), ("p2p_off", "PeerOff")] {
            let read = fault("hpcac-tessa", &format!("{key} = [\"mlx5_2\", \"GPU1\"]")).unwrap();
            assert!(format!("{read:?}").starts_with(is), "{read:?}");
        }
        // what is not given stays as designed
        let slow = fault("7gforce", "link = [\"plx0\", \"GPU0\"]\npcie = \"1.0\"");
        assert_eq!(slow, Ok(Fault::Width { link: pair("plx0", "GPU0"), width: width("1.0 x1") }));
        // a port's link is its card's
        let text = "name = \"c\"\n[nodes]\nsw0 = { part = \"pex89144\" }\n\
                    p0 = { kind = \"nic\", card = \"c\" }\np1 = { kind = \"nic\", card = \"c\" }\n\
                    [[links]]\nbetween = [\"sw0\", \"c\"]\npcie = \"4.0 x8\"\n\
                    [[faults]]\nlink = [\"sw0\", \"p1\"]\npcie = \"x4\"\n";
        let card = read_design(text, "c").unwrap().planted.faults.remove(0);
        assert!(matches!(card, Fault::Width { link, .. } if link == pair("sw0", "c")));
    }

    #[test]
    fn noise_and_seed_are_read_and_have_defaults() {
        let plain = with("h200x4-vm", "").unwrap().planted;
        assert_eq!(plain, Planted { noise: NOISE, seed: 0, faults: Vec::new() });
        let set = with("h200x4-vm", "[simulated]\nnoise = 0.02\nseed = 7\n").unwrap().planted;
        assert_eq!(set, Planted { noise: 0.02, seed: 7, faults: Vec::new() });
    }

    #[test]
    fn the_design_is_not_touched() {
        let faulty = with(
            "h200x4-vm",
            "[[faults]]\nlink = [\"GPU0\", \"nvswitch\"]\nnvlink = 1\n[[faults]]\np2p_off = [\"GPU0\", \"GPU1\"]\n",
        );
        let (faulty, sound) = (faulty.unwrap().machine, with("h200x4-vm", "").unwrap().machine);
        assert_eq!(faulty.p2p, sound.p2p);
        let kinds = |m: &Machine| m.fabric.links().iter().map(|l| l.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&faulty), kinds(&sound));
    }

    #[test]
    fn refusals_name_the_line_and_what_to_write() {
        let line = system_text("h200x4-vm").unwrap().lines().count() + 2;
        let cases = [
            ("factor = 0.5", 0, "a fault has exactly one of link"),
            ("lost = \"GPU1\"\nhang = [\"GPU0\", \"GPU1\"]", 0, "a fault has exactly one of link"),
            ("link = [\"GPU0\", \"cpu0\"]", 0, "pcie = \"3.0 x4\" or nvlink = 16"),
            (
                "link = [\"GPU0\", \"cpu0\"]\nnvlink = 3",
                1,
                "no NVLink link joins 'GPU0' and 'cpu0'; those of 'GPU0' lead to: nvswitch",
            ),
            (
                "link = [\"GPU0\", \"GPU1\"]\npcie = \"x1\"",
                1,
                "no PCIe link joins 'GPU0' and 'GPU1'; those of 'GPU0' lead to: rc0",
            ),
            ("link = [\"GPU0\", \"cpu0\"]\npcie = \"x7\"", 2, "'x7' is no PCIe link"),
            ("link = [\"GPU0\", \"cpu0\"]\npcie = \"5.0 x16\"", 2, "the link is 5.0 x16 by design"),
            ("link = [\"GPU0\", \"cpu0\"]\npcie = \"6.0 x4\"", 2, "the link is 5.0 x16 by design"),
            ("link = [\"GPU0\", \"nvswitch\"]\nnvlink = 18", 2, "18 bricks by design"),
            ("link = [\"GPU0\", \"nvswitch\"]\nnvlink = 19", 2, "18 bricks by design"),
            ("link = [\"GPU0\", \"nvswitch\"]\nnvlink = 3\npcie = \"x1\"", 0, "either of"),
            ("from = \"GPU0\"\nfactor = 0.5", 0, "has two ends"),
            ("from = \"GPU0\"\nto = \"GPU1\"", 0, "factor = 0.5"),
            ("from = \"GPU0\"\nto = \"GPU1\"\nfactor = 1.5", 0, "factor = 0.5"),
            ("from = \"GPU0\"\nto = \"GPU1\"\nfactor = nan", 0, "factor = 0.5"),
            ("from = \"GPU0\"\nto = \"GPU0\"\nfactor = 0.5", 1, "neither joined by a link nor two"),
            ("from = \"nvswitch\"\nto = \"host0\"\nfactor = 0.5", 1, "neither joined by a link nor two"),
            ("hang = [\"GPU0\", \"GPU0\"]", 1, "a pair is of two GPUs"),
            ("hang = [\"GPU0\", \"GPU7\"]", 1, "no node 'GPU7'; did you mean GPU0, GPU1 or GPU2?"),
            ("corrupt = [\"GPU0\", \"host0\"]", 1, "'host0' is no GPU; write one of: GPU0, GPU1, GPU2, GPU3"),
            ("p2p_off = [\"GPU0\", \"GPU1\"]\nafter = 1", 0, "`after` belongs to a fault with `lost`"),
            ("lost = \"GPU0\"\nfactor = 0.5", 0, "`factor` belongs"),
            ("lost = \"GPU0\"\nsamples = 5", 0, "`samples` belongs"),
            ("lost = \"GPU0\"\nafter = -1", 2, "-1"),
            ("hang = [\"GPU0\", \"GPU1\"]\npcie = \"x1\"", 0, "`pcie` belongs"),
            ("hang = [\"GPU0\", \"GPU1\"]\nnvlink = 1", 0, "`nvlink` belongs"),
            ("throttle = \"GPU0\"\nfactr = 0.5", 2, "factr"),
            ("errors = \"GPU0\"", 0, "counter = \"nvlink-replay\", per_gb = 2.0"),
            (
                "errors = \"GPU0\"\ncounter = \"port-symbol\"\nper_gb = 2",
                2,
                "no counter of a GPU; write one of: aer-correctable",
            ),
            ("errors = \"GPU0\"\ncounter = \"nvlink-crc\"\nper_gb = 0.0", 3, "above 0"),
            ("detour = \"GPU0\"\nper_gb = 2.0", 0, "`per_gb` belongs"),
        ];
        for (keys, below, expected) in cases {
            let said = with("h200x4-vm", &format!("[[faults]]\n{keys}\n")).unwrap_err();
            let place = format!("line {}: ", line + below);
            assert!(said.contains(&place) && said.contains(expected), "{keys}\nwanted '{place}{expected}' in: {said}");
        }
        let said = with("h200x4-vm", "[simulated]\nnoise = 3.0\n").unwrap_err();
        assert!(said.contains(&format!("line {}: `noise` is a share from 0 to 0.5", line + 1)), "{said}");
    }
}
