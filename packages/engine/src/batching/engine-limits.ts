import type { ModelRunner } from '../runner/model-runner.ts';
import { REQUEST_LIMITS } from '@trainyard/protocol/fields';

/** About 120 adapters of rank 8 of a model of 135 million weights. */
const DEFAULT_ADAPTER_BYTES = 256e6;

export interface EngineLimits {
  /** Prompt plus reply. Default: the limit of the runner's model and memory. */
  maxContextTokens: number;
  /** Default: the runner's sequences (each choice and each cache entry needs one). */
  maxRunning: number;
  /** Default 2048. */
  maxRequests: number;
  /** Per request. Default {@link maxRunning}: more could not be computed together. */
  maxChoices: number;
  /**
   * Cells kept for finished sequences. Default a quarter of the capacity: the amount that llama.cpp's runner can
   * move out of other sequences' way.
   */
  maxCachedTokens: number;
  /** Per step while nothing is decoding. Default 512. */
  prefillTokens: number;
  /** Per step, so that streams do not stall. Default 128. */
  prefillTokensWhileDecoding: number;
  /** Per step; each holds a row of logits. Default 64 (13 MB at V = 49,152). */
  promptLogprobRows: number;
  /** Default {@link DEFAULT_ADAPTER_BYTES}. Above it idle ones are dropped; those in use may exceed it. */
  maxAdapterBytes: number;
}

/** Fills in the defaults and clamps every limit to the runner's. */
export function resolveEngineLimits(input: Partial<EngineLimits>, runner: ModelRunner): EngineLimits {
  const largestContext = Math.min(runner.contextLength, runner.capacityTokens);
  const upTo = (limit: number, value: number): number => Math.max(1, Math.min(limit, Math.floor(value)));
  const maxRunning = upTo(Math.min(runner.maxSequences, runner.batchTokens), input.maxRunning ?? runner.maxSequences);
  return {
    maxContextTokens: upTo(largestContext, input.maxContextTokens ?? largestContext),
    maxRunning,
    maxChoices: upTo(REQUEST_LIMITS.choices, input.maxChoices ?? maxRunning),
    maxRequests: Math.max(1, input.maxRequests ?? 2048),
    maxCachedTokens: Math.max(
      0,
      Math.min(runner.capacityTokens, Math.floor(input.maxCachedTokens ?? runner.capacityTokens / 4)),
    ),
    prefillTokens: upTo(runner.batchTokens, input.prefillTokens ?? 512),
    prefillTokensWhileDecoding: upTo(runner.batchTokens, input.prefillTokensWhileDecoding ?? 128),
    promptLogprobRows: upTo(runner.batchTokens, input.promptLogprobRows ?? 64),
    maxAdapterBytes: Math.max(0, input.maxAdapterBytes ?? DEFAULT_ADAPTER_BYTES),
  };
}
