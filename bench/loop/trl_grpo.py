"""TRL's GRPOTrainer for bench/loop. The first line of standard input is the work, each further one asks for a step of reinforcement
learning, which is answered with its times as a line of JSON.

Its samples come from transformers' `generate`: TRL's connection to vLLM needs CUDA.
"""

import json
import os
import sys
import time

work = json.loads(sys.stdin.readline())
folder = sys.argv[1]
torch_threads = int(os.environ["OMP_NUM_THREADS"])

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from peft import LoraConfig  # noqa: E402
from transformers import AutoTokenizer, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402
import trl  # noqa: E402

torch.set_num_threads(torch_threads)
STEPS = work["gradientSteps"]
NUM_ROLLOUTS = work["numPrompts"] * work["groupSize"]
# A group at a time fits into the memory of a small machine.
ACCUMULATED = NUM_ROLLOUTS // (STEPS * work["groupSize"])
tokenizer = AutoTokenizer.from_pretrained(folder)
counts = {"sampledTokens": 0, "promptTokens": 0}
times = {"sampling": 0.0, "started": 0.0}


def reward(prompts, completions, completion_ids, **_):
    counts["sampledTokens"] += sum(len(ids) for ids in completion_ids)
    # A group's prompt is counted once, as in the other servers' usage.
    for prompt in prompts[:: work["groupSize"]]:
        text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        counts["promptTokens"] += len(tokenizer(text, add_special_tokens=False)["input_ids"])
    return [float(index % 2) for index in range(len(completions))]


class Turns(TrainerCallback):
    """Waits for a line before each step of reinforcement learning, and answers after it."""

    def on_step_begin(self, args, state, control, **_):
        if state.global_step % STEPS != 0:
            return
        if state.global_step == 0:
            answer({"ready": f"TRL {trl.__version__}, PyTorch {torch.__version__}"})
        if sys.stdin.readline() == "":
            os._exit(0)
        counts.update(sampledTokens=0, promptTokens=0)
        times.update(sampling=0.0, started=time.perf_counter())

    def on_step_end(self, args, state, control, **_):
        if state.global_step % STEPS != 0:
            return
        total = time.perf_counter() - times["started"]
        answer({"total": total, "sampling": times["sampling"], "trainedTokens": counts["sampledTokens"],
                "gradientSteps": STEPS, **counts})


def answer(value):
    print(json.dumps(value), file=own_output, flush=True)


class TimedTrainer(GRPOTrainer):
    def _generate(self, *args, **kwargs):
        started = time.perf_counter()
        try:
            return super()._generate(*args, **kwargs)
        finally:
            times["sampling"] += time.perf_counter() - started


# TRL prints its metrics on standard output.
own_output = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
prompts = [{"prompt": [{"role": "user", "content": text}]} for step in work["prompts"] for text in step]
config = GRPOConfig(
    output_dir=sys.argv[2],
    use_cpu=True,
    bf16=False,
    model_init_kwargs={"dtype": "bfloat16", "attn_implementation": "sdpa"},
    per_device_train_batch_size=work["groupSize"],
    gradient_accumulation_steps=ACCUMULATED,
    steps_per_generation=STEPS * ACCUMULATED,
    num_generations=work["groupSize"],
    num_iterations=1,
    beta=0.0,
    max_completion_length=work["numTokens"],
    generation_kwargs={"min_new_tokens": work["numTokens"]},
    temperature=1.0,
    learning_rate=work["learningRate"],
    lr_scheduler_type="constant",
    max_grad_norm=0.1,
    weight_decay=0.0,
    gradient_checkpointing=False,
    shuffle_dataset=False,
    max_steps=STEPS * len(work["prompts"]),
    logging_strategy="no",
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
trainer = TimedTrainer(
    model=folder,
    reward_funcs=reward,
    args=config,
    train_dataset=Dataset.from_list(prompts),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM"),
    callbacks=[Turns()],
)
trainer.train()
