import './button.css';
import type { ComponentProps } from 'react';

export type ButtonLook = 'plain' | 'primary' | 'danger' | 'quiet';

/**
 * A button that does not submit a form by default.
 *
 * @param isBusy ignores clicks until its work is done; it keeps the focus, which a disabled button would lose
 */
export function Button({
  look = 'plain',
  className = '',
  type = 'button',
  isBusy = false,
  onClick,
  ...rest
}: ComponentProps<'button'> & { look?: ButtonLook; isBusy?: boolean }) {
  return (
    <button
      type={type}
      className={`button ${className}`}
      data-look={look}
      aria-disabled={isBusy || undefined}
      // Submitting a form with Enter also clicks.
      onClick={isBusy ? (event) => event.preventDefault() : onClick}
      {...rest}
    />
  );
}
