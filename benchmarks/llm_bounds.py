"""The bounds of chat beside llama.cpp's server: profiles and measurements, in words for the page."""

from __future__ import annotations

from collections.abc import Sequence

PROFILES = """\
| ms of two cores | times | products | threads that wait | sampling | Python | kernel, libc | others, idle | whole |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| SmolLM2, 1 client | 6 | 1,132/1,157 | 167/121 | 27/37 | 48/0 | 51/55 | 17/20 | 721/695 |
| SmolLM2, 4 clients | 4 | 2,897/2,948 | 134/100 | 54/51 | 60/0 | 57/89 | 32/34 | 1,618/1,611 |
| SmolLM2, 8 clients | 2 | 6,113/5,994 | 334/282 | 117/131 | 132/0 | 153/158 | 138/76 | 3,494/3,321 |
| SmolLM2, short prompt | 6 | 225/248 | 4/7 | 3/4 | 5/0 | 3/6 | 10/6 | 125/136 |
| SmolLM2, prompt unknown | 6 | 2,161/2,141 | 25/16 | 5/6 | 8/0 | 46/31 | 25/25 | 1,135/1,110 |
| SmolLM2, prefix known | 9 | 118/119 | 9/6 | 25/23 | 4/0 | 3/3 | 12/3 | 86/77 |
| SmolLM2, long prompt | 3 | 4,744/4,528 | 43/33 | 12/10 | 12/0 | 61/51 | 56/17 | 2,464/2,320 |
| Qwen3 Q4_0, prompt unknown | 8 | 2,241/2,109 | 71/58 | 9/7 | 8/0 | 110/135 | 102/225 | 1,270/1,267 |
| Qwen3 Q4_0, first 937 tokens | 4 | 5,959/4,533 | 117/99 | 17/16 | 12/0 | 139/219 | 140/219 | 3,192/2,542 |
| Qwen3 Q4_0, prefix known | 12 | 219/208 | 14/12 | 56/53 | 4/0 | 3/3 | 12/5 | 154/140 |
| Qwen3 Q4_0, long prompt | 3 | 5,685/4,700 | 102/69 | 24/20 | 19/0 | 142/44 | 102/14 | 3,037/2,423 |
| Qwen3 Q8_0, 1 client | 5 | 4,445/4,530 | 482/352 | 52/60 | 68/0 | 83/82 | 268/198 | 2,699/2,611 |
| Qwen3 Q8_0, 4 clients | 3 | 11,805/12,100 | 516/642 | 99/116 | 84/0 | 158/111 | 192/336 | 6,427/6,653 |
| Qwen3 Q8_0, 8 clients | 1 | 23,412/23,980 | 1,468/1,587 | 240/234 | 191/0 | 681/293 | 1,312/674 | 13,653/13,384 |
| Qwen3 Q8_0, prompt unknown | 2 | 3,912/3,778 | 128/160 | 6/10 | 12/0 | 282/66 | 194/259 | 2,267/2,137 |
| Qwen3 Q8_0, short prompt | 5 | 443/460 | 22/23 | 7/8 | 4/0 | 5/21 | 28/34 | 254/273 |
| Qwen3 Q8_0, prefix known | 9 | 289/286 | 11/23 | 51/54 | 5/0 | 2/2 | 7/8 | 182/187 |
| Qwen3 Q8_0, long prompt | 2 | 8,609/8,248 | 154/124 | 22/20 | 21/0 | 299/42 | 254/16 | 4,680/4,225 |
| Llama Q4_0, 1 client | 5 | 4,368/4,435 | 372/292 | 53/56 | 66/0 | 63/44 | 22/43 | 2,472/2,434 |
| Llama Q4_0, short prompt | 5 | 416/463 | 8/12 | 4/5 | 5/0 | 5/6 | 8/6 | 223/246 |
| Llama Q4_0, prefix known | 6 | 246/241 | 6/9 | 41/42 | 3/0 | 4/3 | 8/2 | 154/148 |
| Llama Q4_0, long prompt | 2 | 8,340/7,641 | 71/56 | 26/16 | 20/0 | 55/28 | 23/16 | 4,267/3,878 |
| Llama Q4_K_M, 1 client | 3 | 5,627/4,562 | 420/278 | 52/58 | 63/0 | 112/83 | 352/47 | 3,313/2,513 |
| Llama Q4_K_M, 4 clients | 2 | 10,035/9,409 | 281/363 | 98/113 | 83/0 | 340/170 | 325/152 | 5,581/5,104 |
| Llama Q4_K_M, 8 clients | 1 | 20,731/19,608 | 609/714 | 208/247 | 168/0 | 696/320 | 581/324 | 11,496/10,607 |
| Llama Q4_K_M, prefix known | 6 | 297/290 | 6/14 | 43/46 | 4/0 | 17/8 | 7/6 | 187/181 |"""
"""Ours / llama-server's, in the scenes that some model misses the target of."""

BOUNDS: Sequence[str] = (
    "Both sides call the same `llama_decode`. `perf record` of two cores while both servers answer in turns, 999 "
    "samples a second, each model in its form as measured, one recording of each scene after a round to warm up. One "
    "client: from the first token to the last. More clients: whole answers. All others: from the request to its first "
    "token. `Others`: the client, and other programs on these cores. Ours / llama-server's:",
    PROFILES,
    "So the products of llama.cpp (libggml-cpu) are 74% to 98% of all work there, and mostly the same on both sides. "
    "No server around the same call can gain them. Where they differ, the following paragraphs say why. This host's "
    "speed varies: some recordings have other ratios than the tables above, on either side of 1.",
    "**One client.** Python takes 0.4 to 0.5 ms a token, on one core, and the thread of the other core waits "
    "meanwhile. Both together are 15% of the time of two cores with SmolLM2, and 9% in llama-server; with the larger "
    "models 7% to 10%, and 6% to 7%. 1.05 of llama-server's tokens/s would take 118 ms of processor time from ours "
    "with SmolLM2, of 162 for Python, the additional waiting, the kernel and idle cores. With Llama in Q4_0 it would "
    "take 308 ms, of 231. By `py-spy` 83% of Python's time is the event loop that sends the token; the largest single "
    "part, JSON, is a tenth. Sending while the next token is computed gains nothing on two cores ([decision "
    "27](../decisions/0027-threads.md)).",
    "**Eight clients** share four slots, so conversations leave slots while others write. Python, waiting threads and "
    "products take 132, 52 and 119 ms more than in llama-server with SmolLM2. Saving a conversation of 216 tokens of "
    "Qwen3 takes 4 to 65 ms, but 261 to 324 ms without flash attention (four readings each), and all answers wait. "
    "With Qwen3 in Q8_0 kernel and C library take 0.39 s more, and cores idle 0.92 s more: one thread copies.",
    "**A short prompt** took 0.91 to 0.94 of llama-server's time in all four recordings.",
    "**A known prefix.** The products are the same. Connection, template, tokens, queue and the way of the first text "
    "through HTTP cost 0.7 to 1.3 ms more than in llama-server, by the `timings.prompt_ms` of both (18 questions to "
    "each). That shows with the smallest model. With Qwen3 in Q4_0 the products differ, too: conversations at rest "
    "are beside the known one, as the next paragraph says. Beside none, one, two and three of them the questions took "
    "1.01, 1.05, 1.07 and 1.09 of llama-server's time.",
    "**Conversations larger than the memory for them.** 937 tokens of Qwen3 have 102 MB, and `prefix_cache_mb` is 64. "
    "Such a conversation goes to the disk while nobody asks, until half of the 1 GB is written that may be written in "
    "four hours. These scenes write more. From then on conversations stay in the context, and attention passes over "
    "their cells. In a trace, beside none to three conversations of 940 tokens, the first call of 256 tokens went "
    "from 600 to 750 ms, and the third one from 820 to 1,010 ms. So the first 937 tokens took 5.96 s of products, and "
    "4.53 in llama-server, which keeps every conversation in memory (`--cache-ram`, 8 GB).",
    "Three servers in turns say the same: ours with 64 MB, ours with `prefix_cache_mb = 512`, and llama-server, after "
    "ten unknown prompts to each. The first 937 tokens took 3.20, 2.93 and 2.83 s (medians of 4 rounds). With 512 MB "
    "they took 0.93 (0.85 to 0.95) of the time with 64. The long prompt beside streams took 3.45, 3.07 and 2.96 s (2 "
    "rounds), 1.17 and 1.05 of llama-server's time. Private memory went from 846 to 844 MB, from 899 to 1,245, and "
    "from 806 to 1,872. The default is for small boxes ([decision 5](../decisions/0005-conversations-at-rest.md)).",
    "**An unknown prompt** comes right after another one here. The conversation before is copied first, which took 0 "
    "to 128 ms in the trace. What it pushes out of memory is written to the disk by a thread on the same cores. "
    "llama-server copies, too, and writes nothing. With Qwen3 in Q8_0 kernel and C library take 0.22 s more a prompt "
    "so, and the products beside them 0.13 s, of two cores. Three pairs without a profile had 1.06, 1.01 and "
    "1.01. Calls of 512 tokens are no faster than calls of 256: 0.997 in the median of 7 pairs.",
    "**A long prompt beside streams.** llama-server reads it in one call, and its streams stand still meanwhile. Ours "
    "go on, with a token each after at most 256 tokens of the prompt. The products are 4% to 21% more: each call "
    "computes with the cells of the streams, and with those of conversations at rest (Qwen3). 1,024 tokens of Qwen3 "
    "beside three streams took 1.08 (1.00 to 1.14, 4 pairs) of the time alone. With Qwen3 in Q8_0 kernel and C "
    "library take 0.26 s more, of which `clear_page_erms` (fresh pages) has 0.21 s, and the other core idles as long.",
    "**Q4_K_M.** `edgeserve tune` chose the mapped weights. With one client their kernel, `ggml_vec_dot_q4_K_q8_K`, "
    "takes 3.38 s of a core. The one for reordered weights in llama-server, `ggml_gemv_q4_K_8x8_q8_K`, takes 2.41 s "
    "for the same tokens. The products of Q6_K take 1.97 s on both sides. (Other programs took 0.2 s of ours.) With "
    "prompts it is the other way round: the products of a short one take 341 ms mapped and 504 ms reordered, those of "
    "937 tokens 5.4 s and 9.0 s. So 900 prompt tokens and 300 answered ones take 11.4 s instead of 12.4. 1.0 in each "
    "cell would take both forms at once. llama.cpp has one form of each tensor, so that is two models, and 420 MB "
    "more, by the private memory of both sides above.",
    "**Private memory.** With the weights mapped, it is the KV cache. llama.cpp fills the cache with zeros for the "
    "whole context, used or not, and llama-server has the same one: 4,096 tokens of 112 KB are 470 of 583 MB for "
    "qwen3-0.6b, and of 832 MB there. So 0.35 of llama-server's memory is less than the cache alone. Without the "
    "cache the ratio is 0.31, and 0.21 for llama-3.2-1b, whose tokens take 32 KB. "
    '`kv_type = "q8_0"` halves the cache. It is not the default, because it changes the words.',
    "**Beside a busy process** both share two cores with it. Ours leaves it one and computes with one thread, so that "
    "no thread waits for another that has lost its core ([decision 27](../decisions/0027-threads.md)). Llama in "
    "Q4_K_M with eight clients, a warm-up and one pair in `perf record`, 499 samples a second of both cores: the "
    "products took 39 s of ours and 39 s of llama-server, for the same answers. Threads that wait (libgomp) took 0.4 "
    "s of ours and 87 s of llama-server. So one core bounds ours: 24.4 to 25.1 tokens/s in all seven pairs. "
    "llama-server had 10.7 to 29.1. Its two threads have up to 1.33 cores of the two where the kernel deals them out "
    "evenly, and it depends on the kernel how much of that they wait. Where they hardly wait, one core cannot have "
    "1.2 of their tokens/s.",
)
"""Measured on 2026-11-23 and 2026-11-24."""
