import '../components/card.css';
import { useEffect, useState } from 'react';
import type { HostsObject } from '@trainyard/sdk';

import { client } from '../api/client.ts';
import { SparkLine } from '../charts/spark-line.tsx';
import { Facts } from '../components/facts.tsx';
import { Progress } from '../components/progress.tsx';
import { type HostSample, tokenRates, withSample } from './host-history.ts';

/** Kept while the page of the dashboard is open, so that leaving this view loses nothing. */
let history: readonly HostSample[] = [];

/** Processor, memory and disk of the machine, with their last ten minutes. */
export function MachineCard({ hosts, updatedAt }: { hosts: HostsObject; updatedAt: number }) {
  const [samples, setSamples] = useState(history);
  useEffect(() => {
    history = withSample(history, hosts, client.now() / 1000);
    setSamples(history);
  }, [hosts, updatedAt]);
  const { machine } = hosts;
  if (machine === null) return null;
  const used = machine.memory_bytes - machine.free_memory_bytes;
  const at = samples.map((sample) => sample.at);
  const rates = tokenRates(samples);
  return (
    <section className="card host" aria-label="Machine">
      <header>
        <h2>Machine</h2>
        <span className="soft">of the process that answers</span>
      </header>
      <Progress
        label="Processor in use"
        value={Math.min(1, machine.load / machine.num_cores)}
        text={`Processor: load ${machine.load.toFixed(1)} on ${machine.num_cores} cores`}
      />
      <Progress
        label="Memory in use"
        value={used / machine.memory_bytes}
        text={`Memory: ${gigabytes(used)} of ${gigabytes(machine.memory_bytes)}, ${gigabytes(machine.process_bytes)} by this process`}
      />
      <Facts
        facts={[
          { name: 'Free disk', value: machine.free_disk_bytes === null ? '–' : gigabytes(machine.free_disk_bytes) },
          {
            name: 'Last timed write',
            value: machine.sync_seconds === null ? '–' : `${(machine.sync_seconds * 1000).toFixed(0)} ms`,
          },
          { name: 'Load', value: <SparkLine x={at} y={samples.map(({ load }) => load ?? 0)} width={150} /> },
          { name: 'Memory', value: <SparkLine x={at} y={samples.map(({ memory }) => memory ?? 0)} width={150} /> },
          {
            name: `Sampled tokens/s${rates.y.length === 0 ? '' : `: ${rates.y.at(-1)!.toFixed(0)}`}`,
            value: <SparkLine x={rates.x} y={rates.y} width={150} />,
          },
        ]}
      />
    </section>
  );
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
