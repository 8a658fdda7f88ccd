/** Written by `npm run bench -- models --write`. */
import type { MeasuredSteps } from './predict-step.ts';

export const MEASURED_STEPS: MeasuredSteps = { machine: '', isTrial: true, rows: [] };
