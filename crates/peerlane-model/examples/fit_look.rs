use peerlane_model::{assumptions::Assumptions, comparison::Comparison, model::Assume};
use peerlane_read::{assemble::assemble, catalogue::Parts, evidence::{Text, scan_text}};
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        for m in assemble(scan_text(&Text::new(&path, &bytes))) {
            let t = std::time::Instant::now();
            let a = Assumptions::of(&m, Parts::embedded());
            let took = t.elapsed();
            let model = a.model(Parts::embedded(), Assume::Usual);
            println!("## {} {} [{took:?}]", path.rsplit('/').next().unwrap(), m.name);
            for s in a.sentences(&model) { println!("   - {s}"); }
            for r in &m.remarks { println!("   remark {:?} {:?} {}", r.claim, r.about, r.origin); }
            if let Some(f) = a.fit() { for u in &f.unexplained { println!("   ! {} {:?} {} {:?}", u.metric.describe(), u.ends, u.measured, u.allowed); } }
            let c = Comparison::of(&model);
            for t in c.tables() {
                let mut seen = std::collections::BTreeMap::<String, Vec<(f64,f64)>>::new();
                for cell in &t.cells { for me in &cell.measured { if let Some(e) = &cell.expected {
                    let cl = m.fabric.find(&t.rows[cell.row]).zip(m.fabric.find(&t.cols[cell.col])).and_then(|(a,b)| m.fabric.class(a,b));
                    let k = format!("{:?} e={:.2} [{:.2},{:.2}]", cl, e.value, e.low, e.high);
                    seen.entry(k).or_default().push((me.value, e.value)); } } }
                for (k, v) in seen { let lo = v.iter().map(|x| x.0).fold(f64::MAX, f64::min); let hi = v.iter().map(|x| x.0).fold(0., f64::max);
                    let mut r: Vec<f64> = v.iter().map(|x| x.0/x.1).collect(); r.sort_by(f64::total_cmp);
                    println!("   {} : {k} measured {lo:.2}..{hi:.2} n={} ratio {:.2} med {:.2} {:.2}", t.metric.describe(), v.len(), r[0], r[r.len()/2], r[r.len()-1]); }
            }
        }
    }
}
