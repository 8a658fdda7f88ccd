import './button.css';
import type { ComponentProps } from 'react';

export type ButtonLook = 'plain' | 'primary' | 'danger' | 'quiet';

/**
 * A button that submits nothing unless it is told to.
 *
 * @param isBusy it does what it was pressed for, and nothing more until that is done; it keeps the focus, which a disabled button loses
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
      // A form that is sent by Enter comes this way too.
      onClick={isBusy ? (event) => event.preventDefault() : onClick}
      {...rest}
    />
  );
}
