import type { Command } from 'commander';

import { UsageError } from '../terminal/command-error.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import type { JsonOption } from '../terminal/service-connection.ts';
import { durationOf } from '../terminal/times.ts';
import { withProgress } from '../terminal/with-progress.ts';

/** `trainyard pull`: downloads a base model into the cache of the hub. A running service is not needed. */
export function pullCommand(): Command {
  const command = newCommand('pull', 'download a base model from the Hugging Face hub')
    .description(
      'Downloads the files that Trainyard needs into the cache of the hub (HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub), and continues an interrupted download. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are honoured.',
    )
    .argument('<MODEL>', 'ORG/NAME, ORG/NAME:QUANTISATION or ORG/NAME/FILE.gguf, each with @REVISION')
    .option('--json', '{"path", "commit", "size_bytes", "downloaded_bytes"}');
  withExamples(command, ['trainyard pull Qwen/Qwen3-0.6B', 'trainyard pull Qwen/Qwen3-0.6B-GGUF:Q8_0']);
  return command.action(async (text: string, { json }: JsonOption) => {
    const { pullModel, PullPace, readHubSettings, readModelReference } = await import('@trainyard/server');
    const reference = readModelReference(text);
    if (reference === null)
      throw new UsageError(
        `MODEL must be ORG/NAME, ORG/NAME:QUANTISATION or ORG/NAME/FILE.gguf, each with @REVISION, got ${JSON.stringify(text)}`,
      );
    const pace = new PullPace();
    const options = { settings: readHubSettings(process.env), refreshes: true };
    const pulled = await withProgress(
      `downloading ${text}`,
      () => pullModel(reference, { ...options, onProgress: (progress) => pace.see(progress) }),
      () => `: ${pace.text}${pace.remainingSeconds === null ? '' : `, ${durationOf(pace.remainingSeconds)} left`}`,
    );
    const { path, commit, sizeBytes, downloadedBytes } = pulled;
    if (json === true) printJson({ path, commit, size_bytes: sizeBytes, downloaded_bytes: downloadedBytes });
    else process.stdout.write(`${path}\nserve it with: trainyard serve --model ${text}\n`);
  });
}
