import type { Trainyard, UsageGroupObject, UsageQuery } from '@trainyard/sdk';
import type { Command } from 'commander';

import { UsageError } from '../terminal/command-error.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { tableFor } from '../terminal/table.ts';
import { secondsOfDate } from '../terminal/times.ts';

const PARTS = ['project', 'key', 'model', 'kind', 'day'] as const;
type Part = (typeof PARTS)[number];
const DEFAULT_PARTS: readonly Part[] = ['model', 'kind'];
const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3_600, d: 86_400 };

interface UsageOptions extends ServiceOptions, JsonOption {
  readonly by?: readonly Part[];
  readonly since?: Since;
  readonly project?: string;
  readonly key?: string;
  readonly model?: string;
}

/** Unix seconds, or a period before the present time of the service. */
type Since = { readonly at: number } | { readonly ago: number };

/** `trainyard usage`: sampled and trained tokens. */
export function usageCommand(): Command {
  const command = newCommand('usage', 'token usage by project, key, model, kind and day')
    .option('--by <LIST>', `${PARTS.join(',')}: columns to group by (model,kind)`, partsOf)
    .option('--since <WHEN>', 'start: 12h, 7d, or a date such as 2027-01-31 (30d)', sinceOf)
    .option('--project <NAME>', "only usage of this project ('' for none)")
    .option('--key <NAME>', 'only usage of keys with this name or id')
    .option('--model <TEXT>', 'only usage of models with this text in their name');
  withExamples(command, ['trainyard usage', 'trainyard usage --by day,key --since 7d --project demo --json']);
  return addServiceOptions(command, 'the response of the API').action(async (options: UsageOptions) => {
    const client = serviceClient(options);
    const { by = DEFAULT_PARTS, project, key, model } = options;
    const query: UsageQuery = {
      by: [...by],
      ...(options.since && { from: await secondsOf(options.since, client) }),
      ...(project !== undefined && { project }),
      ...(key !== undefined && { key }),
      ...(model !== undefined && { model }),
      // The JSON has each step.
      fold_steps: options.json !== true,
    };
    const usage = await client.usage.read(query);
    if (options.json === true) printJson(usage);
    else if (usage.data.length === 0) process.stdout.write('no usage in this time\n');
    else process.stdout.write(usageTable(usage.data, by));
    if (usage.has_more)
      process.stderr.write('the list is incomplete: choose a shorter time, or fewer columns in --by\n');
  });
}

function usageTable(groups: readonly UsageGroupObject[], parts: readonly Part[]): string {
  const columns = [
    ...parts.map((title) => ({ title, isOptional: true })),
    ...['requests', 'prompt tokens', 'completion tokens'].map((title) => ({ title, isNumber: true })),
  ];
  const rows = groups.map((group) => [
    ...parts.map((part) => labelOf(group, part)),
    ...[group.num_requests, group.prompt_tokens, group.completion_tokens].map((count) => count.toLocaleString('en')),
  ]);
  return tableFor(process.stdout, columns, rows);
}

function labelOf(group: UsageGroupObject, part: Part): string {
  const { num_steps: numSteps = 0 } = group;
  if (part === 'model' && numSteps > 1) return `${group.model} (${numSteps} steps)`;
  const label = part === 'key' ? (group.key_name ?? group.key_id) : group[part];
  return label ?? '-';
}

function partsOf(text: string): Part[] {
  return text.split(',').map((name) => {
    const part = PARTS.find((known) => known === name.trim());
    if (part === undefined) throw new UsageError(`--by takes ${PARTS.join(', ')}, got ${JSON.stringify(name)}`);
    return part;
  });
}

function sinceOf(text: string): Since {
  const [, count, unit = ''] = /^(\d{1,5})([hd])$/.exec(text) ?? [];
  const ago = Number(count) * (UNIT_SECONDS[unit] ?? 0);
  // After 1970 on any clock.
  if (count !== undefined && ago < Date.now() / 1000) return { ago };
  const at = secondsOfDate(text);
  if (at !== null && at >= 0) return { at };
  throw new UsageError(`--since must be a time such as 12h, 7d or 2027-01-31, got ${JSON.stringify(text)}`);
}

async function secondsOf(since: Since, client: Trainyard): Promise<number> {
  if ('at' in since) return Math.floor(since.at);
  // Its first response contains the service's time.
  await client.service.health();
  return Math.max(0, Math.floor(client.now() / 1000 - since.ago));
}
