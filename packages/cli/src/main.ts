#!/usr/bin/env node
import { serve } from './serve.ts';
import { doctor } from './doctor.ts';

const USAGE = `usage: trainyard <command> [options]

commands:
  serve     start the service (the options are listed by "trainyard serve --help")
  doctor    check this machine and a running service
`;

const [command, ...rest] = process.argv.slice(2);
switch (command) {
  case 'serve':
    process.exitCode = await serve(rest);
    break;
  case 'doctor':
    process.exitCode = await doctor(rest);
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
