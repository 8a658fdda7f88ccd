import './before-and-after.css';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ModelDetailsObject, TrainingJobObject } from '@trainyard/sdk';

import { sampleReply } from '../api/chat.ts';
import { examplesQuery } from '../api/jobs.ts';
import { useMay } from '../api/session.ts';
import { Button } from '../components/button.tsx';
import { Fault, faultText } from '../components/fault.tsx';

interface Example {
  /** Messages before the wanted reply. */
  readonly prompt: readonly Record<string, unknown>[];
  readonly question: string;
  readonly wanted: string;
}

interface Replies {
  readonly before: string;
  readonly after: string;
}

/** First conversations of a supervised job: the wanted reply, and the model's before and after on request. */
export function BeforeAndAfter({
  model,
  job,
  latestStep,
}: {
  model: ModelDetailsObject;
  job: TrainingJobObject;
  latestStep: number;
}) {
  const { data, error } = useQuery(examplesQuery(job.id));
  const [replies, setReplies] = useState<readonly Replies[] | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const maySample = useMay('inference');
  const examples = (data?.data ?? []).flatMap((line) => exampleOf(line.messages) ?? []);
  if (error !== null) return <Fault error={error} />;
  if (examples.length === 0) return null;
  const startStep = job.start_step ?? 0;
  const isTrained = latestStep > startStep;

  async function sample() {
    setIsBusy(true);
    const name = `${model.entity}/${model.project}/${model.name}`;
    const reply = async (step: number, { prompt }: Example) =>
      await sampleReply(`${name}:step${step}`, prompt).catch((fault: unknown) => faultText(fault));
    setReplies(
      await Promise.all(
        examples.map(async (example) => ({
          before: await reply(startStep, example),
          after: await reply(latestStep, example),
        })),
      ),
    );
    setIsBusy(false);
  }

  return (
    <section className="chart-group" aria-label="Examples before and after">
      <h2>Examples</h2>
      <div className="before-and-after">
        {examples.map(({ question, wanted }, index) => (
          <article key={index} className="card">
            <dl>
              <dt>Prompt</dt>
              <dd>{question}</dd>
              <dt>In the data</dt>
              <dd>{wanted}</dd>
              {replies === null ? null : (
                <>
                  <dt>Step {startStep}, before</dt>
                  <dd>{replies[index]?.before}</dd>
                  <dt>Step {latestStep}, after</dt>
                  <dd>{replies[index]?.after}</dd>
                </>
              )}
            </dl>
          </article>
        ))}
      </div>
      {maySample && isTrained ? (
        <div>
          <Button onClick={() => void sample()} isBusy={isBusy}>
            {isBusy ? 'Sampling …' : `Compare replies of steps ${startStep} and ${latestStep}`}
          </Button>
        </div>
      ) : null}
    </section>
  );
}

/** Null for a conversation that does not end with a reply in words. */
function exampleOf(messages: readonly Record<string, unknown>[]): Example | null {
  const last = messages.at(-1);
  const prompt = messages.slice(0, -1);
  const question = prompt.findLast(({ role }) => role === 'user')?.['content'];
  const wanted = last?.['content'];
  if (last?.['role'] !== 'assistant' || typeof wanted !== 'string' || typeof question !== 'string') return null;
  return { prompt, question, wanted };
}
