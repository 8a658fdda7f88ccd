/**
 * Main module of the examination host: checks one remote part from a child process, with the environment of
 * the host that uses it.
 */
import { blobFindings, type Finding } from '@trainyard/store';
import { examineServer } from '@trainyard/vllm';

import { contactTrainer } from './contact-trainer.ts';
import { answerAsHost, hostOptions } from '../process/host-main.ts';
import { VLLM_KEY_VARIABLE } from '../inference/vllm-driver.ts';
import { EXAMINED_TRAINER_KEY, type RemotePart } from './remote-part.ts';

const part = hostOptions<RemotePart>();
await answerAsHost(async () => ({ findings: await findingsOf() }));

async function findingsOf(): Promise<Finding[]> {
  switch (part.kind) {
    case 'bucket': {
      const findings = await Array.fromAsync(blobFindings(part.location));
      return findings.map((finding) => ({ ...finding, subject: `${finding.subject}, from the trainer's process` }));
    }
    case 'vllm': {
      const { url, model } = part;
      const apiKey = process.env[VLLM_KEY_VARIABLE] ?? null;
      return [await found('vllm', `vLLM server ${url}`, () => examineServer({ url, model, apiKey }))];
    }
    case 'trainer': {
      const { remote } = part;
      const look = async (): Promise<void> => {
        const { absence } = await contactTrainer(remote, process.env[EXAMINED_TRAINER_KEY] ?? null);
        if (absence !== null) throw new Error(absence);
      };
      return [await found('remote_trainer', `trainer at ${remote.url}`, look)];
    }
    default:
      return part satisfies never;
  }
}

async function found(name: string, subject: string, look: () => Promise<void>): Promise<Finding> {
  try {
    await look();
    return { name, subject, problem: null };
  } catch (error) {
    return { name, subject, problem: error instanceof Error ? error.message : String(error) };
  }
}
