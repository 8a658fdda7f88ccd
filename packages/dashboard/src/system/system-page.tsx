import '../components/card.css';
import './system-page.css';
import { useQuery } from '@tanstack/react-query';
import type { HostsObject, QueuedJobObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { hostsQuery } from '../api/hosts.ts';
import { queueQuery } from '../api/jobs.ts';
import { Facts } from '../components/facts.tsx';
import { Fault } from '../components/fault.tsx';
import { formatCount } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { Progress } from '../components/progress.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { HubModels } from './hub-models.tsx';
import { MachineCard } from './machine-card.tsx';
import { countOf, PoolMembers } from './pool-members.tsx';

type Host = HostsObject['sampling']['hosts'][number];

/** The parts of the service: engines, trainers and stores. */
export function SystemPage() {
  const { data, error, dataUpdatedAt } = useQuery(hostsQuery);
  const { data: queue } = useQuery(queueQuery);
  return (
    <Page title="System">
      {error === null ? null : <Fault error={error} />}
      {data === undefined ? null : (
        <>
          <Facts
            facts={[
              { name: 'Version', value: data.version },
              { name: 'Sampling', value: <PartState trouble={data.sampling.trouble} /> },
              { name: 'Training', value: <PartState trouble={data.training.trouble} /> },
              { name: 'Store', value: <PartState trouble={data.store.trouble} /> },
              ...(data.tracking === null
                ? []
                : [{ name: data.tracking.tracker, value: <PartState trouble={data.tracking.trouble} /> }]),
              ...data.processes.flatMap(({ role, url, machine_trouble: trouble }) =>
                trouble === null
                  ? []
                  : [
                      {
                        name: `Machine of ${url ?? `a process with the role ${role}`}`,
                        value: <PartState trouble={trouble} />,
                      },
                    ],
              ),
              { name: 'Unfinished jobs', value: queue?.data.length ?? '–' },
            ]}
          />
          <div className="hosts">
            <MachineCard hosts={data} updatedAt={dataUpdatedAt} />
            <TrainerCard training={data.training} jobs={queue?.data ?? []} />
            {data.sampling.hosts.map((host) => (
              <HostCard key={host.base_model} host={host} />
            ))}
          </div>
          <HubModels />
          <p className="soft">
            <a href="/docs">Every route of the API</a> · <a href="/openapi.json">OpenAPI document</a> ·{' '}
            <a href="/metrics">Metrics for Prometheus</a>
          </p>
        </>
      )}
    </Page>
  );
}

/** The job that is trained now, and those that wait. */
function TrainerCard({ training, jobs }: { training: HostsObject['training']; jobs: readonly QueuedJobObject[] }) {
  const running = jobs.filter(({ status }) => status === 'running');
  return (
    <section className="card host" aria-label="Trainer">
      <header>
        <h2>Trainer</h2>
        <StatusDot tone={running.length > 0 ? 'live' : 'plain'}>{running.length > 0 ? 'training' : 'idle'}</StatusDot>
      </header>
      {running.map(({ id, num_gradient_steps_done: done, num_gradient_steps: total }) => (
        <div key={id}>
          <Link href={`/jobs/${encodeURIComponent(id)}`}>Job {id.slice(0, 8)}</Link>
          <Progress
            label={`Gradient steps of job ${id.slice(0, 8)}`}
            value={total === null || total === 0 ? 0 : done / total}
            text={`${done} of ${total ?? '?'} gradient steps`}
          />
        </div>
      ))}
      <Facts
        facts={[
          {
            name: 'Waiting',
            value: jobs.filter(({ status, is_paused: paused }) => status === 'queued' && !paused).length,
          },
          { name: 'Paused', value: jobs.filter(({ is_paused: paused }) => paused).length },
          {
            name: 'Base models',
            value: training.base_models === null ? 'any' : training.base_models.join(', ') || 'none',
          },
        ]}
      />
    </section>
  );
}

function PartState({ trouble }: { trouble: string | null }) {
  return trouble === null ? (
    <StatusDot tone="good">healthy</StatusDot>
  ) : (
    <>
      <StatusDot tone="bad">failing</StatusDot> <small>{trouble}</small>
    </>
  );
}

function HostCard({ host }: { host: Host }) {
  const { prefix_query_tokens: queried, prefix_hit_tokens: hit } = host;
  const hits = !queried || hit === null ? null : hit / queried;
  const isRemote = host.members.length > 0;
  return (
    <section className="card host" aria-label={host.base_model}>
      <header>
        <h2>{host.base_model}</h2>
        {isRemote ? (
          <span className="soft">{countOf(host.members)}</span>
        ) : (
          <StatusDot tone={host.is_loaded ? 'good' : 'plain'}>
            {host.is_loaded ? 'in memory' : 'not in memory'}
          </StatusDot>
        )}
      </header>
      {isRemote ? <PoolMembers members={host.members} /> : <KvCache host={host} />}
      <Facts
        facts={[
          { name: 'Requests', value: countOrDash(host.num_requests) },
          { name: 'In the batch', value: countOrDash(host.num_running) },
          { name: 'Waiting', value: countOrDash(host.num_waiting) },
          { name: 'Adapters', value: countOrDash(host.num_adapters) },
          { name: 'Longest sequence', value: formatCount(host.max_model_len) },
          { name: 'Training', value: host.untrainable === null ? 'possible' : `not possible: ${host.untrainable}` },
          { name: 'Preemptions', value: countOrDash(host.num_preemptions) },
          { name: 'Sampled', value: countOrDash(host.generated_tokens) },
          { name: 'Prefix hits', value: hits === null ? '–' : `${(hits * 100).toFixed(0)} %` },
        ]}
      />
    </section>
  );
}

/** A count, or a dash if the key may not read it: only admins of the service's own entity get totals. */
function countOrDash(count: number | null): string {
  return count === null ? '–' : formatCount(count);
}

function KvCache({ host }: { host: Host }) {
  const { kv_used_tokens: used, kv_cached_tokens: cached, kv_capacity_tokens: capacity } = host;
  if (used === null || cached === null) return null;
  return (
    <Progress
      label="KV cache in use"
      value={capacity === 0 ? 0 : used / capacity}
      text={`KV cache: ${formatCount(used)} of ${formatCount(capacity)} tokens, ${formatCount(cached)} cached`}
    />
  );
}
