//! What servers, trainers and benchmarks log of their own work: requests that are answered or wait (vLLM, SGLang and other servers), the losses of
//! steps, and that they came to their end.

mod benchmark;
mod rate;
mod told;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};
use told::Told;

const TOOL: &str = "program's log";

/// The longest line in which a server prints its settings, in bytes.
const LONGEST_START: usize = 20_000;

/// Fewer steps are no training.
const FEWEST_STEPS: usize = 3;

/// With room for fewer requests of full length than this there is room for one.
const FEW: f64 = 1.1;

/// From this share of the cache on, requests wait for room in it.
const FULL: f64 = 0.9;

pub(super) fn scan(text: &Text, found: &mut Found) {
    // few, since each is looked for in every text
    const HALLMARKS: [&str; 15] = [
        "requests",
        "LLM",
        "server",
        "omplete",
        "throughput",
        "HTTP/1.1\" ",
        "oss",
        "Maximum concurrency",
        "COMPLETE",
        "All distributed processes registered",
        "saved checkpoint",
        "/s",
        "erSec",
        "per_sec",
        "FLOP",
    ];
    if !text.holds_one_of(&HALLMARKS) {
        return;
    }
    let mut health = Health::default();
    // the request that waits with most others, and the steps with their losses
    let mut waiting: Option<(u64, String, usize)> = None;
    let mut steps: Vec<(usize, f64)> = Vec::new();
    let mut most_waiting = 0;
    let mut told = Told::default();
    let mut rates = rate::Rates::default();
    let mut columns = benchmark::Columns::default();
    // the room of a cache that holds hardly one request
    let mut room: Option<(f64, String, usize)> = None;
    // how long the last step waited for data
    let mut waits: Option<(String, usize)> = None;
    for (i, line) in text.iter() {
        if line.len() > 2000 {
            // a server prints all its settings in one line
            if line.len() < LONGEST_START
                && let Some(words) = begins(line)
            {
                told.starts(words, i);
            }
            continue;
        }
        let is_row = rates.is_row(line);
        if let Some(results) = columns.read(line) {
            health.sound(Area::Program, i);
            results.into_iter().for_each(|(rate, what)| told.works(rate, &what, i));
            continue;
        }
        if let Some(status) = answer(line) {
            let bad = (status >= 500).then_some(Grade::Suspect);
            health.judge(Area::Program, bad, None, "a request ended with", &format!("HTTP {status}"), i);
            if !line.contains("\"GET /health") {
                told.answers(bad.is_none());
            }
        } else if line.contains("Application startup complete") || line.contains("The server is fired up and ready") {
            health.sound(Area::Program, i);
        } else if let Some((requests, share)) = queue(line) {
            told.read(line, i);
            most_waiting = most_waiting.max(requests);
            let is_worst = requests > 0 && share >= FULL && waiting.as_ref().is_none_or(|(most, ..)| requests > *most);
            if is_worst {
                let value = format!("{requests} of them, {:.0} % of it in use", share * 100.0);
                waiting = Some((requests, value, i));
            } else {
                health.sound(Area::Program, i);
            }
        } else if let Some((times, tokens)) = concurrency(line) {
            // what the machine has room for is no trouble while nothing waits
            told.holds(times, tokens, i);
            health.sound(Area::Program, i);
            room = Some((times, format!("{times:.2} of {tokens} tokens"), i)).filter(|_| times < FEW).or(room);
        } else if let Some(failed) = failed_requests(line) {
            let bad = (failed > 0).then_some(Grade::Suspect);
            health.judge(Area::Program, bad, None, "requests of a benchmark that failed:", &failed.to_string(), i);
        } else if ended(line) || is_result(line) || is_row {
            health.sound(Area::Program, i);
            if let Some((rate, unit)) = rate::of_work(line) {
                told.works(rate, unit, i);
            }
        } else if told.read_rates(line, i) {
            // a server's own line, which the text's end may cut
            health.sound(Area::Program, i);
        } else if let Some((rate, unit)) = rate::of_work(line) {
            health.sound(Area::Program, i);
            told.works(rate, unit, i);
            if let Some(wait) = rate::wait_for_data(line) {
                waits = Some((wait, i));
            }
        } else if met(line) {
            health.sound(Area::Job, i);
        } else if let Some(failed) = residuals(line) {
            let bad = (failed > 0).then_some(Grade::Fault);
            health.judge(Area::Test, bad, None, "HPL's tests that failed the residual check:", &failed.to_string(), i);
        } else if let Some(words) = begins(line) {
            told.starts(words, i);
        } else if told.read(line, i) {
            // what it tells is said once, below
        } else if let Some(loss) = loss(line) {
            steps.push((i, loss));
        }
    }
    if let Some((_, value, i)) = room.filter(|_| most_waiting > 0 && waiting.is_none()) {
        let what = "requests wait, and the KV cache holds so many of full length at once:";
        health.trouble(Area::Program, Grade::Limit, None, what, &value, i);
    }
    if let Some((_, value, i)) = waiting {
        health.trouble(Area::Program, Grade::Limit, None, "requests wait for room in the KV cache:", &value, i);
    }
    if let Some((value, i)) = waits {
        health.trouble(Area::Program, Grade::Note, None, "steps wait for data:", &value, i);
    }
    if steps.len() >= FEWEST_STEPS {
        for (i, loss) in &steps {
            if loss.is_finite() {
                health.sound(Area::Program, *i);
            }
        }
        if let [(first, begin), .., (_, end)] = steps.as_slice() {
            told.trained(steps.len(), (*begin, *end), *first);
        }
        let last = steps.last().filter(|(_, loss)| !loss.is_finite());
        if let Some((i, loss)) = last {
            health.trouble(Area::Program, Grade::Fault, None, "the loss of the last step is", &loss.to_string(), *i);
        }
    }
    let (told, lines) = told.summary();
    lines.iter().for_each(|i| health.used(*i));
    for words in told {
        let first = lines.first().copied().unwrap_or_default();
        health.trouble(Area::Program, Grade::Note, None, "", &words, first);
    }
    health.push(text, TOOL, found);
}

/// What a server of models is to serve, and over how many GPUs: `Initializing a V1 LLM engine (v0.9.2) with config: model='X', …
/// tensor_parallel_size=2`, `server_args=ServerArgs(model_path='X', … tp_size=2`.
fn begins(line: &str) -> Option<String> {
    let after = |key: &str| line.split_once(key).map(|(_, rest)| rest);
    let quoted = |key: &str| after(key)?.split('\'').next();
    let number = |key: &str| {
        let digits = after(key)?.trim_start_matches([' ', '\'', ':', '=']);
        digits.split(|c: char| !c.is_ascii_digit()).next().filter(|n| !n.is_empty())
    };
    let (name, model) = if let Some(rest) = after(" LLM engine (v") {
        (format!("vLLM {}", rest.split(')').next()?), quoted("model='"))
    } else if let Some(rest) = after("vLLM API server version ") {
        (format!("vLLM {}", rest.split_whitespace().next()?), None)
    } else if line.contains("server_args=ServerArgs(") {
        ("SGLang".to_owned(), quoted("model_path='"))
    } else {
        return None;
    };
    // of a folder its own name
    let model = model.map(|model| {
        if model.starts_with(['/', '.']) {
            model.trim_end_matches('/').rsplit('/').next().unwrap_or(model)
        } else {
            model
        }
    });
    let model = model.map_or_else(String::new, |model| format!(", {model}"));
    let gpus = number("tensor_parallel_size").or_else(|| number("tp_size"));
    let gpus = gpus.filter(|n| *n != "1").map_or_else(String::new, |n| format!(" over {n} GPUs (tensor parallel)"));
    Some(format!("{name}{model}{gpus}"))
}

/// The status of `127.0.0.1:1234 - "POST /v1/completions HTTP/1.1" 200 OK`; what a client asked wrongly says nothing of the server.
fn answer(line: &str) -> Option<u32> {
    let (request, status) = line.split_once(" HTTP/1.1\" ")?;
    // what a browser gets of a page says little of the work
    let asked = |path: &&str| path.starts_with("/health") || path.starts_with("/v1/");
    let posted = request.split_once("\"POST ").map(|(_, path)| path).filter(|path| path.starts_with('/'));
    posted.or_else(|| request.split_once("\"GET ").map(|(_, path)| path).filter(asked))?;
    let status = status.get(..3)?.parse().ok()?;
    (!(400..500).contains(&status)).then_some(status)
}

/// How many requests wait, and the share of the cache that is used: `Waiting: 27 reqs, GPU KV cache usage: 100.0%`, `token usage: 0.97, …
/// #queue-req: 13`.
fn queue(line: &str) -> Option<(u64, f64)> {
    let number = |name: &str| {
        let (_, value) = line.split_once(name)?;
        let value = value.trim_start();
        let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        value.get(..end)?.parse::<f64>().ok()
    };
    let vllm =
        || Some((number("Waiting: ")?, number("KV cache usage: ")? / 100.0)).filter(|_| line.contains("throughput"));
    let sglang = || Some((number("#queue-req: ")?, number("token usage: ")?)).filter(|_| line.contains("#running-req"));
    let (requests, share) = vllm().or_else(sglang)?;
    Some((requests as u64, share))
}

/// `Maximum concurrency for 32,768 tokens per request: 1.00x`: how many such requests there is room for.
fn concurrency(line: &str) -> Option<(f64, &str)> {
    let (tokens, rest) = line.split_once("Maximum concurrency for ")?.1.split_once(" tokens per request: ")?;
    let times = rest.split('x').next()?.trim().parse().ok()?;
    Some((times, tokens)).filter(|_| tokens.len() <= 12)
}

/// Whether a trainer says that it came to its end: of Ultralytics, Transformers, Lightning.
fn ended(line: &str) -> bool {
    let epochs = || {
        line.trim()
            .split_once(" epochs completed in ")
            .is_some_and(|(n, time)| n.parse::<u32>().is_ok() && time.ends_with(" hours."))
    };
    let fit = || line.contains("`Trainer.fit` stopped: `max_") && line.contains(" reached");
    let saved = || line.contains("successfully saved checkpoint from iteration ");
    // fairseq
    let done = || line.contains("| done training in ");
    epochs() || line.contains("'train_runtime': ") || fit() || saved() || done()
}

/// A result of a benchmark of vLLM's or SGLang's: `Throughput: 12.34 requests/s, …`, `Request throughput (req/s):  6.41`, and steps of
/// Megatron with their time.
fn is_result(line: &str) -> bool {
    let positive = |text: &str| {
        let number = text.split_whitespace().next().unwrap_or_default();
        number.parse::<f64>().is_ok_and(|n| n > 0.0 && n.is_finite())
    };
    let line = line.trim();
    let after = |key: &str| line.split_once(key).map(|(_, rest)| rest);
    let throughput = || line.contains(" requests/s") && after("Throughput: ").is_some_and(positive);
    let request = || after("Request throughput (req/s):").is_some_and(positive);
    let step = || {
        let loss = after("lm loss: ").is_some_and(positive);
        loss && after("elapsed time per iteration (ms): ").is_some_and(positive)
    };
    throughput() || request() || step()
}

/// `Failed requests:   0` of a benchmark of servers.
fn failed_requests(line: &str) -> Option<u64> {
    line.trim().strip_prefix("Failed requests:")?.trim().parse().ok()
}

/// Whether ranks found each other, by NCCL and by Lightning.
fn met(line: &str) -> bool {
    line.contains("NCCL INFO") && line.trim_end().ends_with("Init COMPLETE")
        || line.contains("All distributed processes registered. Starting with ")
        || line.contains(": Completed store-based barrier for key:")
}

/// `0 tests completed and failed residual checks,`.
fn residuals(line: &str) -> Option<u32> {
    line.trim()
        .trim_end_matches([',', '.'])
        .strip_suffix(" tests completed and failed residual checks")?
        .trim()
        .parse()
        .ok()
}

/// The loss of a step: `step 10 | loss: 2.31`, `iteration 20/ 100 | lm loss: 2.0E+00`, `{'loss': 1.2, 'epoch': 0.1}`.
fn loss(line: &str) -> Option<f64> {
    let lower = line.to_ascii_lowercase();
    let counts = ["step", "iter", "epoch"].iter().any(|word| {
        let after = lower.split_once(word).map(|(_, after)| after.trim_start_matches(|c: char| c.is_alphabetic()));
        let after = after.map(|after| {
            [" index", " number", "_index", "_idx"].iter().find_map(|word| after.strip_prefix(word)).unwrap_or(after)
        });
        after.is_some_and(|after| {
            after.trim_start_matches([' ', ':', '=', '[', '\'', '"', '#']).starts_with(|c: char| c.is_ascii_digit())
        })
    });
    // a bar of Keras, one of tqdm
    let bar = || {
        let of_keras =
            lower.trim_start().split_once(" [").map(|(count, _)| count).and_then(|count| count.split_once('/'));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        of_keras.is_some_and(|(at, of)| is_number(at) && is_number(of))
            || lower.contains("it/s")
            || lower.contains("s/it")
    };
    if !counts && !bar() {
        return None;
    }
    let (before, after) = lower.split_once("loss")?;
    // the scale of a loss is none
    if before.ends_with("no ")
        || after.starts_with([' ', '_']) && after.trim_start_matches([' ', '_']).starts_with("scale")
    {
        return None;
    }
    let value =
        after.trim_start_matches(['\'', '"']).trim_start().strip_prefix([':', '=', ' ']).or(after.strip_prefix(' '))?;
    let value = value.trim_start().trim_start_matches(['\'', '"']);
    let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-'))).unwrap_or(value.len());
    let value = value.get(..end)?.trim_end_matches('.');
    let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-') || matches!(value, "nan" | "inf");
    value.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn requests_that_are_answered_or_wait() {
        let log = |waiting: u32, usage: &str| {
            format!(
                "INFO:     Application startup complete.\nINFO:     10.0.0.1:33 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n\
                 INFO 01-01 [loggers.py:1] Engine 000: Avg prompt throughput: 7.3 tokens/s, Avg generation throughput: 2.5 tokens/s, \
                 Running: 26 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: 83.3%\n"
            )
        };
        let sound = health(scan, &log(0, "99.0"));
        assert_eq!((sound.area, sound.sound, sound.troubles.len()), (Area::Program, 3, 1));
        let told = "at best 2.5 tokens/s generated; at best 7.3 tokens/s of prompts read; 1 request answered";
        assert_eq!(sound.troubles[0].value, told);
        let full = health(scan, &log(27, "100.0"));
        let bad: Vec<_> = full.troubles.iter().map(|t| (t.value.as_str(), t.grade)).collect();
        assert_eq!(bad, [("27 of them, 100 % of it in use", Grade::Limit), (told, Grade::Note)]);
        // what the text's end cuts is no rate
        let cut =
            health(scan, "server\nEngine 000: Avg prompt throughput: 7.3 tokens/s, Avg generation throughput: 98");
        assert_eq!(cut.troubles[0].value, "at best 7.3 tokens/s of prompts read");
        let sglang = "Decode batch. #running-req: 66, #token: 87282, token usage: 0.99, gen throughput (token/s): 25.3, #queue-req: 13\n";
        assert_eq!(health(scan, sglang).troubles[0].value, "13 of them, 99 % of it in use");
        let failed = health(scan, "10.0.0.1:33 - \"POST /v1/completions HTTP/1.1\" 500 Internal Server Error\n");
        assert_eq!(failed.troubles[0].grade, Grade::Suspect);
    }

    #[test]
    fn room_for_requests_and_ends() {
        let room = |times: &str| {
            health(
                scan,
                &format!(
                    "INFO GPU KV cache size: 32,832 tokens\nINFO Maximum concurrency for 32,768 tokens per request: {times}x\n"
                ),
            )
        };
        // a capacity is a fact of the machine, and only told
        let told = room("1.00");
        assert_eq!((told.sound, told.troubles.len(), told.troubles[0].grade), (1, 1, Grade::Note));
        let busy = |waiting: u32| {
            let log = format!(
                "INFO Maximum concurrency for 32,768 tokens per request: 1.00x\nEngine 000: Avg prompt throughput: 7.3 tokens/s, Avg generation \
                 throughput: 2.5 tokens/s, Running: 1 reqs, Waiting: {waiting} reqs, GPU KV cache usage: 60.0%, Prefix cache hit rate: 0.0%\n"
            );
            health(scan, &log).troubles.iter().filter(|t| t.grade == Grade::Limit).count()
        };
        assert_eq!((busy(0), busy(3)), (0, 1));
        for line in [
            "135 epochs completed in 6.495 hours.",
            "{'train_runtime': 12.1, 'epoch': 1.0}",
            "`Trainer.fit` stopped: `max_epochs=3` reached.",
        ] {
            assert_eq!(health(scan, &format!("completed train_runtime loss\n{line}\n")).sound, 1, "{line}");
        }
        let hpl = |failed: u32| {
            health(
                scan,
                &format!(
                    "  1 tests completed and passed residual checks,\n  {failed} tests completed and failed residual checks,\n"
                ),
            )
        };
        assert_eq!((hpl(0).area, hpl(0).sound, hpl(1).troubles[0].grade), (Area::Test, 1, Grade::Fault));
        let asked = "10.0.0.1:33 - \"GET /health HTTP/1.1\" 200 OK\n";
        assert_eq!(health(scan, asked).sound, 1);
        assert_eq!(scanned(scan, &asked.replace("health", "index.html")), Found::default());
    }

    #[test]
    fn the_start_of_a_server() {
        let start = "INFO 01-01 [core.py:69] Initializing a V1 LLM engine (v0.9.2) with config: model='X/Y', tensor_parallel_size=2, seed=0\n";
        let of = health(scan, start);
        assert_eq!(
            (of.sound, of.troubles[0].value.as_str(), of.troubles[0].grade),
            (0, "vLLM 0.9.2, X/Y over 2 GPUs (tensor parallel)", Grade::Note)
        );
        let figures = "INFO world_size=2 rank=0 local_rank=0 backend=nccl\nINFO [worker.py:1] Model loading took 5.79 GiB memory and 3.1 seconds\n\
                       INFO [worker.py:2] Available KV cache memory: 14.74 GiB\nINFO:     Application startup complete.\n";
        let served = health(scan, &format!("{start}{figures}"));
        assert_eq!((served.sound, served.troubles.len()), (1, 1));
        assert!(served.troubles[0].value.ends_with("; 2 ranks; weights 5.79 GiB; KV cache 14.74 GiB"), "{served:?}");
    }

    #[test]
    fn ranks_that_found_each_other() {
        let nccl = "h:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n";
        let of = health(scan, nccl);
        assert_eq!((of.area, of.sound), (Area::Job, 1));
        assert_eq!(scanned(scan, &nccl.replace("COMPLETE", "START")), Found::default());
        let barrier =
            "[INFO] - Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 2 nodes.\n";
        assert_eq!((health(scan, barrier).area, health(scan, barrier).sound), (Area::Job, 1));
    }

    #[test]
    fn tables_with_a_rate_of_work() {
        let own = "prompt        steps   AL   tok/s\n--------------------------\n  one            28  4.5   54.36\n  two            21  6.1   71.84\n";
        assert_eq!(health(scan, own).sound, 2);
        let llama =
            "| model | size | test | t/s |\n| --- | ---: | --- | ---: |\n| a 7B | 3 GiB | tg128 | 128.93 ± 0.21 |\n";
        assert_eq!(health(scan, llama).sound, 1);
        assert_eq!(scanned(scan, "a server of requests\nspeed in t/s\n1 2 3\n"), Found::default());
    }

    #[test]
    fn results_of_benchmarks() {
        let serving = |failed: u32| {
            format!("Successful requests:   200\nFailed requests:    {failed}\nRequest throughput (req/s):   6.41\n")
        };
        assert_eq!((health(scan, &serving(0)).sound, health(scan, &serving(3)).troubles.len()), (2, 1));
        let step =
            " iteration 10/ 100 | elapsed time per iteration (ms): 5123.4 | lm loss: 9.1E+00 | loss scale: 1.0 |\n";
        assert_eq!(health(scan, step).sound, 1);
        assert_eq!(health(scan, "Throughput: 12.3 requests/s, 5678.9 total tokens/s\n").sound, 1);
        assert_eq!(scanned(scan, "Throughput: many requests/s\n"), Found::default());
    }

    #[test]
    fn losses_of_steps() {
        for line in [
            "step N loss 2.5",
            "iteration N/ 100 | lm loss: 2.3E+00 |",
            "{'loss': 1.2, 'epoch': 0.N}",
            "[Rank 0] step=N, loss=3.1",
            "1875/1875 [====] - 4s 2ms/call - loss: 1.22N - accuracy: 0.93",
            "100%|###| 500/500 [01:23<00:00,  5.9Nit/s, loss=1.23]",
            "Epoch: [0][ N/5005]\tTime 9.1\tLoss 6.9e+00 (7.0e+00)",
            "Epoch N/10, Train Loss: 1.69, Val Loss: 1.68",
            "[2026-01-01 10:00:00,1][main.T][INFO] - iteration index: N00, batch loss: 75.7",
            "2023-05-01 10:00:00 | INFO | train_inner | {\"epoch\": 1, \"update\": 0.N, \"loss\": \"12.3\"}",
        ] {
            let of = |last: &str| {
                let steps: String = (1..4).map(|n| format!("{}\n", line.replace('N', &n.to_string()))).collect();
                let number = loss(steps.lines().next().unwrap()).unwrap();
                assert!(number > 1.0, "{line}: {number}");
                health(scan, &(steps + last))
            };
            assert_eq!((of("").sound, of("step 9 loss: nan\n").troubles.len()), (3, 1), "{line}");
        }
        for text in [
            "the loss of step 1 is 3\nloss scale step 1 loss_scale: 3\n",
            "packet loss: 0%\n",
            "step 1 loss: 2\n",
            "Model loss functions in step 3\n",
        ] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
