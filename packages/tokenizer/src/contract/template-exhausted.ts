/** Cause of the failure of a template that took more steps than it may. */
export class TemplateExhausted extends Error {
  override readonly name = 'TemplateExhausted';
}

/** Whether a rendering failed since it took too many steps: another one of the same template would, too. */
export function isExhausted(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof TemplateExhausted;
}
