import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { groupAdvantages } from '@trainyard/trainer';

import { installVllm } from '../../lab/vllm/vllm-process.mjs';
import { JsonLinesProcess } from '../json-lines-process.ts';
import { huggingFaceModel, ROOT } from '../serving/peers/model-files.ts';
import type { Log } from '../serving/peers/peer.ts';
import { loraFlags, startVllm } from '../serving/peers/vllm.ts';
import { shownVariables } from '../settings-environment.ts';
import { ensureLoopEnvironment, torchVariables } from './loop-environment.ts';
import { type LoopKind, type LoopStep, type LoopWork, promptsOf, rewardOf, waitingOf } from './loop-work.ts';

/** `merged`: all weights, which a compiled vLLM reloads; `adapter`: LoRA, with which vLLM does not compile. */
export type PublishForm = 'merged' | 'adapter';

/** A group as the trainer reads it. */
interface SampledGroup {
  readonly prompt: readonly number[];
  readonly completions: readonly (readonly number[])[];
  /** Sampler's log-probabilities, natural. */
  readonly logprobs: readonly (readonly number[])[];
  readonly advantages: readonly number[];
}

interface Trained {
  readonly seconds: number;
  readonly trainedTokens: number;
  readonly gradientSteps: number;
  readonly meanGap: number;
}

/** The part of vLLM's answers that is read. */
interface VllmChat {
  readonly prompt_token_ids: readonly number[];
  readonly choices: readonly {
    readonly index: number;
    readonly token_ids: readonly number[];
    readonly logprobs: { readonly content: readonly { readonly logprob: number }[] };
  }[];
}

/** vLLM samples, PyTorch with peft trains in bf16 on groups packed by hand, each in its own process. */
export function vllmTorchLoop(form: PublishForm, log: Log): LoopKind {
  return {
    name: `vLLM + PyTorch, ${form}`,
    install: async () => {
      await installVllm(ROOT, log);
      await ensureLoopEnvironment(log);
    },
    open: async (work) => await VllmTorchLoop.open(form, work, log),
  };
}

class VllmTorchLoop {
  static async open(form: PublishForm, work: LoopWork, log: Log): Promise<VllmTorchLoop> {
    // Its routes that load weights and clear the cache.
    const environment = { VLLM_SERVER_DEV_MODE: '1' };
    const vllm = await startVllm({ log, environment, flags: form === 'adapter' ? loraFlags(1) : [] });
    try {
      const python = await ensureLoopEnvironment(log);
      const script = join(import.meta.dirname, '../torch_policy.py');
      const args = [script, await huggingFaceModel(log), 'bfloat16', String(work.learningRate)];
      const variables = await torchVariables(python, log);
      const torch = new JsonLinesProcess(python, args, variables);
      const { ready } = (await torch.answer()) as { ready: string };
      const settings = `${vllm.settings}; PyTorch ${ready}: ${shownVariables(variables)}`;
      return new VllmTorchLoop({ form, work, vllm: vllm.process, torch, settings });
    } catch (error) {
      vllm.process.kill();
      throw error;
    }
  }

  readonly settings: string;
  readonly #form: PublishForm;
  readonly #work: LoopWork;
  readonly #vllm: Awaited<ReturnType<typeof startVllm>>['process'];
  readonly #torch: JsonLinesProcess;
  readonly #folder = mkdtempSync(join(tmpdir(), 'trainyard-loop-'));
  /** Name of the model that is sampled. */
  #model = 'base';

  private constructor(parts: {
    readonly form: PublishForm;
    readonly work: LoopWork;
    readonly vllm: Awaited<ReturnType<typeof startVllm>>['process'];
    readonly torch: JsonLinesProcess;
    readonly settings: string;
  }) {
    this.#form = parts.form;
    this.#work = parts.work;
    this.#vllm = parts.vllm;
    this.#torch = parts.torch;
    this.settings = parts.settings;
  }

  async step(index: number): Promise<LoopStep> {
    const startedAt = performance.now();
    const groups = await Promise.all(promptsOf(this.#work, index).map((prompt) => this.#sample(prompt)));
    const sampledAt = performance.now();
    const trained = (await this.#torch.ask({ steps: dealt(groups, this.#work.gradientSteps) })) as Trained;
    const trainedAt = performance.now();
    await this.#publish();
    const total = (performance.now() - startedAt) / 1000;
    const parts = {
      sampling: (sampledAt - startedAt) / 1000,
      training: trained.seconds,
      publishing: total - (trainedAt - startedAt) / 1000,
    };
    const completions = groups.flatMap((group) => group.completions);
    return {
      total,
      ...parts,
      waiting: waitingOf(total, Object.values(parts)),
      sampledTokens: completions.reduce((sum, ids) => sum + ids.length, 0),
      promptTokens: groups.reduce((sum, { prompt }) => sum + prompt.length, 0),
      trainedTokens: trained.trainedTokens,
      gradientSteps: trained.gradientSteps,
      meanGap: trained.meanGap,
    };
  }

  async close(): Promise<void> {
    this.#vllm.kill();
    await this.#torch.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #sample(content: string): Promise<SampledGroup> {
    const chat = (await this.#post('/v1/chat/completions', {
      model: this.#model,
      messages: [{ role: 'user', content }],
      n: this.#work.groupSize,
      max_tokens: this.#work.numTokens,
      temperature: 1,
      ignore_eos: true,
      logprobs: true,
      return_token_ids: true,
    })) as VllmChat;
    return {
      prompt: chat.prompt_token_ids,
      completions: chat.choices.map(({ token_ids }) => token_ids),
      logprobs: chat.choices.map(({ logprobs }) => logprobs.content.map(({ logprob }) => logprob)),
      advantages: groupAdvantages(
        chat.choices.map(({ index }) => rewardOf(index)),
        'std',
      )!,
    };
  }

  async #publish(): Promise<void> {
    await this.#torch.ask({ publish: this.#form, folder: this.#folder });
    if (this.#form === 'adapter') {
      const adapter = { lora_name: 'policy', lora_path: this.#folder, load_inplace: this.#model === 'policy' };
      await this.#post('/v1/load_lora_adapter', adapter);
      this.#model = 'policy';
    } else {
      await this.#post('/collective_rpc', { method: 'reload_weights', kwargs: { weights_path: this.#folder } });
    }
    // Its cache has keys and values of the old weights.
    await this.#post('/reset_prefix_cache', {});
  }

  async #post(path: string, body: object): Promise<unknown> {
    const response = await fetch(`${this.#vllm.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`vLLM answered ${response.status} to ${path}: ${text.slice(0, 500)}`);
    return text.startsWith('{') ? (JSON.parse(text) as unknown) : null;
  }
}

/** Groups of each gradient step. */
function dealt<Group>(groups: readonly Group[], numSteps: number): Group[][] {
  return Array.from({ length: numSteps }, (_, step) => groups.filter((_group, index) => index % numSteps === step));
}
