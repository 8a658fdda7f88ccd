#!/usr/bin/env node
import { serve } from './serve.ts';
import { doctor } from './doctor.ts';
import { exportModel } from './export.ts';

const USAGE = `usage: trainyard <command> [options]

commands:
  serve     start the service (the options are listed by "trainyard serve --help")
  doctor    check this machine and a running service
  export    write a checkpoint to files in a public format
`;

const [command, ...rest] = process.argv.slice(2);
switch (command) {
  case 'serve':
    process.exitCode = await serve(rest);
    break;
  case 'doctor':
    process.exitCode = await doctor(rest);
    break;
  case 'export':
    process.exitCode = await exportModel(rest);
    break;
  case undefined:
  case 'help':
  case '--help':
  case '-h':
    process.stdout.write(USAGE);
    break;
  default:
    process.stderr.write(`unknown command "${command}"\n\n${USAGE}`);
    process.exitCode = 2;
}
