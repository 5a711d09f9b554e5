//! Products and links in words.

use peerlane_machine::fabric::{Link, LinkKind};
use peerlane_read::catalogue::Parts;

/// A product name without vendor, brand, trademarks and brackets.
pub fn short(product: &str) -> String {
    const NOISE: [&str; 12] = [
        "NVIDIA",
        "GeForce",
        "Advanced",
        "Micro",
        "Corporation",
        "Intel",
        "AMD",
        "IBM",
        "Mellanox",
        "Technologies",
        "CPU",
        "Processor",
    ];
    const VENDORS: [&str; 8] = [
        "Advanced Micro Devices, Inc. [AMD/ATI]",
        "Advanced Micro Devices, Inc. [AMD]",
        "Broadcom Inc. and subsidiaries",
        "Broadcom / LSI",
        "PLX Technology, Inc.",
        "Microsemi / PMC / IDT",
        "Realtek Semiconductor Co., Ltd.",
        "Red Hat, Inc.",
    ];
    let bare = VENDORS.iter().find_map(|v| product.strip_prefix(v)).filter(|rest| !rest.trim().is_empty());
    let product = bare.unwrap_or(product).trim();
    // the PCI ID list names chip and product: GV100GL [Tesla V100 SXM2 16GB]; a lower-case word is neither
    let inside = product.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inside, _)| inside);
    let named = inside.filter(|i| i.chars().any(|c| !c.is_ascii_lowercase()));
    let named = named.unwrap_or_else(|| product.split_once(" [").map_or(product, |(before, _)| before));
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in named.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | '@' if depth == 0 => break,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().filter(|w| !NOISE.contains(w)).collect();
    // a name that the tool cut has nothing else: `NVIDIA GeForce ...`
    let is_name = words.iter().any(|word| word.contains(char::is_alphanumeric));
    if is_name { words.join(" ") } else { product.to_owned() }
}

/// A link in words: `PCIe 3.0 x16`, `NVLink ×2`, `QPI`.
pub fn link(link: &Link) -> String {
    match &link.kind {
        LinkKind::Pcie { running, .. } if running.is_unknown() => "PCIe".to_owned(),
        LinkKind::Pcie { running, .. } => format!("PCIe {running}"),
        LinkKind::Smp => link.part.clone().map_or_else(|| "SMP link".to_owned(), |part| smp(&part)),
        LinkKind::OnDie => "on die".to_owned(),
        LinkKind::OnCard => "on card".to_owned(),
        kind => bundle(kind),
    }
}

/// A part's title for an inter-socket link, without what it connects.
fn smp(part: &str) -> String {
    let title = Parts::embedded().get(part).map_or_else(|| part.to_owned(), |p| short(&p.title));
    title.split(" between ").next().unwrap_or_default().to_owned()
}

/// The label of a GPU link in topology matrices: `NV2`, `XGMI`, `C2C`.
pub fn bundle(kind: &LinkKind) -> String {
    match kind {
        LinkKind::Gpu(bundle) => bundle.label(),
        other => other.name().to_owned(),
    }
}
