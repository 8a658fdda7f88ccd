/** Passes in JSON: for the SDK up to 0.24, and servers that still use it. */
import { asNumber, asObject, asText } from './json-value.ts';
import type { Datum, LossInput, PassRequest, PassResult } from './datum.ts';
import { wireFault } from './wire-fault.ts';

/** Body of `forward_backward`, or of `forward`. */
export function passBody({ modelId, seqId, datums, lossName, isForwardOnly }: PassRequest): object {
  const input = { data: datums.map(datumBody), loss_fn: lossName, loss_fn_config: null };
  return {
    model_id: modelId,
    seq_id: seqId,
    ...(isForwardOnly ? { forward_input: input } : { forward_backward_input: input }),
  };
}

function datumBody({ tokens, inputs }: Datum): object {
  const entries = Object.entries(inputs).map(([name, input]) => [name, tensorBody(input)]);
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: Array.from(tokens) }] },
    loss_fn_inputs: Object.fromEntries(entries),
  };
}

function tensorBody(input: LossInput): object {
  const dtype = input instanceof Float32Array ? 'float32' : 'int64';
  return { data: Array.from(input), dtype, shape: [input.length] };
}

/** @throws {TrainerError} `trainer.remote_refused` for another shape */
export function readPassResult(value: unknown): PassResult {
  const { loss_fn_outputs: outputs, metrics } = asObject(value, 'a pass');
  if (!Array.isArray(outputs)) throw wireFault('a pass has no loss_fn_outputs');
  const logprobs = outputs.map((output) => {
    const tensor = asObject(asObject(output, 'an output')['logprobs'], 'logprobs');
    if (!Array.isArray(tensor['data'])) throw wireFault('logprobs have no data');
    return Float32Array.from(tensor['data'], (item) => asNumber(item, 'a log-probability'));
  });
  return { logprobs, metrics: readMetrics(metrics) };
}

/** Drops values that are not numbers. */
export function readMetrics(value: unknown): Record<string, number> {
  if (value === null || value === undefined) return {};
  return Object.fromEntries(
    Object.entries(asObject(value, 'metrics')).filter(
      (entry): entry is [string, number] => typeof entry[1] === 'number',
    ),
  );
}

/** @throws {TrainerError} `trainer.remote_refused` */
export function readPath(value: unknown): string {
  return asText(asObject(value, 'a save')['path'], 'the path of a save');
}
