/**
 * Refuses a wrong flag of `npm start` before packages are installed, which takes minutes on a first start.
 * Runs on Node.js 20.19 and later, without dependencies;
 * the command itself checks values.
 *
 *   node scripts/refuse-flags.mjs --port 8421
 */
import { SERVE_FLAGS } from './lib/serve-flags.mjs';

const { switches, values } = SERVE_FLAGS;
const args = process.argv.slice(2);
for (let at = 0; at < args.length; at++) {
  const [flag = '', ...rest] = (args[at] ?? '').split('=');
  if (flag === '-h' || flag === '--') continue;
  const name = flag.replace(/^--/, '');
  if (!flag.startsWith('--') || ![...switches, ...values].includes(name)) {
    const what = flag.startsWith('-') ? `unknown option '${flag}'` : `unknown argument '${flag}'`;
    process.stderr.write(`trainyard: ${what}${didYouMean(name)}. "npm start -- --help" lists them all.\n`);
    process.exit(2);
  }
  if (values.includes(name) && rest.length === 0) at++;
}

/** @param {string} name */
function didYouMean(name) {
  const known = [...switches, ...values];
  const near = known.find((one) => name.length > 2 && (one.startsWith(name) || name.startsWith(one)));
  return near === undefined ? '' : ` (did you mean --${near}?)`;
}
