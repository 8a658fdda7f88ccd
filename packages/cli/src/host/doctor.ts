import type { Command } from 'commander';

import { newCommand, withExamples } from '../terminal/new-command.ts';
import { SERVICE_URL_HELP } from '../terminal/service-connection.ts';
import type { DoctorOptions } from './examination.ts';
import { addSettingOptions } from './settings.ts';

/** `trainyard doctor`: checks this machine and the service. */
export function doctorCommand(): Command {
  const doctor = newCommand('doctor', 'check this machine and a running service')
    .description(
      'Prints one line per check. Exits with code 1 if a check fails. With --database postgres://… it also checks the shared parts of the service and each of its processes.',
    )
    .option('--json', 'one JSON object instead: {"ok": …, "checks": [{"name", "subject", "problem"}]}')
    .option('--url <URL>', SERVICE_URL_HELP);
  withExamples(doctor, [
    'trainyard doctor',
    "trainyard doctor --json | jq '.checks[] | select(.problem)'",
    'trainyard doctor --database postgres://trainyard@db.internal/trainyard --bucket https://s3.internal/trainyard',
  ]);
  return addSettingOptions(doctor).action(async (options: DoctorOptions) => {
    const { examineAndPrint } = await import('./examination.ts');
    await examineAndPrint(options);
  });
}
