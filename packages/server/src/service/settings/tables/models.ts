import { TOOL_PARSERS } from '../model-settings.ts';
import type { SettingRow } from '../setting-row.ts';

export const MODELS = {
  model: {
    kind: 'text',
    isList: true,
    defaultText: 'SmolLM2-135M-Instruct',
    help: 'GGUF file of a base model, its folder in the Hugging Face format, or a model of the hub (`ORG/NAME`, `ORG/NAME:Q8_0`), also as `ID=…`; repeatable, the first is the default',
    more: 'see [your own model](../guide/your-own-model.md) and [several base models](#several-base-models)',
  },
  modelId: { kind: 'text', defaultText: 'from the file', help: 'id of the first base model' },
  modelMemoryMegabytes: {
    kind: 'integer',
    min: 64,
    max: 16_777_216,
    defaultText: '70 % of memory',
    help: 'memory limit of all base models together, MB; models are loaded and unloaded as requests need them',
  },
  hub: {
    kind: 'choice',
    values: ['auto', 'on', 'off'],
    default: 'auto',
    help: 'clients may name base models of the Hugging Face hub, which the service fetches: `auto`, `on` or `off`',
    more: '`auto`: on for a service on a loopback address without names in `--allowed-hosts`; see [your own model](../guide/your-own-model.md#named-by-clients)',
  },
  hubAllow: {
    kind: 'text',
    pattern: /^[\w.\-/*:@]+(?:,[\w.\-/*:@]+)*$/,
    form: 'a comma-separated list of patterns such as Qwen/*',
    default: '*',
    help: 'base models of the hub that clients may name, comma-separated; `*` = any characters',
  },
  acceptModels: {
    kind: 'switch',
    default: 'off',
    help: 'accept model files whose content changed since they were first read',
    more: 'see [decision 53](../decisions/0053-digests-of-stored-files.md)',
  },
  precision: {
    kind: 'choice',
    values: ['exact', 'strict', 'fast', 'bf16'],
    default: 'exact',
    help: '`exact` = sampler and trainer share one code (or llama.cpp within 1e-3); `strict` = the same, or llama.cpp within 1e-5; `fast` = llama.cpp with the file as it is, in a third of the memory; `bf16` = both in bf16 if the processor supports it, within 0.02 nats',
    more: 'see [decision 34](../decisions/0034-bf16-matrices-for-sampling.md)',
  },
  weights: {
    kind: 'choice',
    values: ['auto', 'resident', 'streamed'],
    default: 'auto',
    help: 'weights of the graphs: `resident` = in memory, 8 bytes per parameter in all; `streamed` = in the file, expanded when used: the same numbers, slower rollouts; `auto` = resident if they take at most half of the memory',
    more: 'see [decision 69](../decisions/0069-streamed-weights.md)',
  },
  deterministic: {
    kind: 'switch',
    default: 'off',
    help: 'compute training log-probabilities with the sampling code, bit-identical; steps take 1.6 times as long',
    more: 'the trainer needs 0.7 GB more for the default model; see [decision 25](../decisions/0025-bit-identical-log-probabilities.md)',
  },
  onednn: {
    kind: 'text',
    defaultText: 'libraries/libdnnl.so.3 in the data folder, else the one of the system',
    help: 'oneDNN library for `--precision bf16`',
    more: '`npm run bf16` fetches it into the data folder',
  },
  threads: { kind: 'integer', min: 1, max: 512, defaultText: 'all cores', help: 'threads of each host' },
  specialTokens: {
    kind: 'choice',
    values: ['plain', 'control'],
    default: 'plain',
    help: 'control token texts in messages: `plain` = keep as text; `control` = convert to tokens',
  },
  chatTemplate: {
    kind: 'text',
    defaultText: "the model's own",
    help: 'file of the Jinja chat template to use instead of the own one of each model',
    more: 'see [chat template](../guide/your-own-model.md#chat-template)',
  },
  toolParser: {
    kind: 'choice',
    values: TOOL_PARSERS,
    default: 'auto',
    help: 'format of tool calls: `auto`, `hermes`, `qwen_xml`, `llama3_json`, `mistral`, `pythonic`, `kimi_k2`, `glm`, `granite`, `nemotron`, `minimax_m2`, `harmony` or `cohere`',
    more: 'see [formats](chat-completions.md#formats-of-tool-calls)',
  },
} as const satisfies Record<string, SettingRow>;
