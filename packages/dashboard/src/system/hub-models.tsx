import '../components/card.css';
import '../components/field.css';
import './hub-models.css';
import { useQuery } from '@tanstack/react-query';
import type { BaseModelObject } from '@trainyard/sdk';
import { type FormEvent, useState } from 'react';

import { baseModelsQuery, cancelBaseModel, fetchBaseModel } from './fetched-models.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { useToast } from '../components/actions/toasts.tsx';
import { Button } from '../components/button.tsx';
import { faultText } from '../components/fault.tsx';
import { formatDuration, formatMegabytes } from '../components/numbers.ts';
import { Progress } from '../components/progress.tsx';
import { shownName } from '../components/shown-name.ts';
import { StatusDot, type StatusTone } from '../components/status-dot.tsx';

/** Base models of the Hugging Face hub: a field to fetch one, and those that are not served yet. */
export function HubModels() {
  const { data } = useQuery(baseModelsQuery);
  const coming = data?.data.filter(({ status }) => status !== 'served') ?? [];
  return (
    <section className="card hub-models" aria-label="Base models of the hub">
      <FetchForm />
      {coming.map((model) => (
        <ComingModel key={model.id} model={model} />
      ))}
    </section>
  );
}

function FetchForm() {
  const [typed, setTyped] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  const toast = useToast();
  async function submit(event: FormEvent) {
    event.preventDefault();
    const id = typed.trim();
    if (id === '' || isBusy) return;
    setIsBusy(true);
    try {
      await fetchBaseModel(id);
      setTyped('');
    } catch (error) {
      toast(faultText(error), 'bad');
    }
    setIsBusy(false);
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <label className="field">
        Base model of the Hugging Face hub
        <input
          className="input"
          placeholder="Qwen/Qwen3-0.6B"
          autoComplete="off"
          spellCheck={false}
          maxLength={300}
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
        />
      </label>
      <Button type="submit" isBusy={isBusy}>
        Fetch
      </Button>
    </form>
  );
}

const STATES: Readonly<Record<BaseModelObject['status'], { tone: StatusTone; text: string }>> = {
  served: { tone: 'good', text: 'served' },
  queued: { tone: 'plain', text: 'waiting' },
  running: { tone: 'live', text: 'fetching' },
  opening: { tone: 'live', text: 'opening' },
  failed: { tone: 'bad', text: 'failed' },
  cancelled: { tone: 'warn', text: 'cancelled' },
};

function ComingModel({ model }: { model: BaseModelObject }) {
  const { id, status, done_bytes: done, total_bytes: total, remaining_seconds: left, error_message: reason } = model;
  const { tone, text } = STATES[status];
  const isLive = status === 'queued' || status === 'running';
  const hasEnded = status === 'failed' || status === 'cancelled';
  return (
    <div className="hub-model">
      <strong>{shownName(id)}</strong>
      <StatusDot tone={tone}>{text}</StatusDot>
      {isLive ? <ActionButton onAct={() => cancelBaseModel(id)}>Cancel</ActionButton> : null}
      {hasEnded ? <ActionButton onAct={() => fetchBaseModel(id)}>Try again</ActionButton> : null}
      {done === null || total === null || !isLive ? null : (
        <Progress
          label={`Progress of ${shownName(id)}`}
          value={total === 0 ? 0 : done / total}
          text={`${formatMegabytes(done)} of ${formatMegabytes(total)}${left === null ? '' : `, about ${formatDuration(left)} left`}`}
        />
      )}
      {status === 'failed' && reason !== null ? <small className="soft">{shownName(reason)}</small> : null}
    </div>
  );
}
