/**
 * Writes the files made from the settings table: their page, and the flags known before packages are
 * installed. `npm run format` runs it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { serveFlagsModule, settingsPage } from '../site/contents/settings-page.ts';

const ROOT = resolve(import.meta.dirname, '..');
const PAGE = resolve(ROOT, 'docs/reference/settings.md');

writeFileSync(PAGE, settingsPage(readFileSync(PAGE, 'utf8')));
writeFileSync(resolve(ROOT, 'scripts/lib/serve-flags.mjs'), serveFlagsModule());
