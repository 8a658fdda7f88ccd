export { type Form, unfitness } from './form.ts';
