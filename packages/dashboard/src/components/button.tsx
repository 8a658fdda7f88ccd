import './button.css';
import type { ComponentProps } from 'react';

export type ButtonLook = 'plain' | 'primary' | 'danger' | 'quiet';

/** A button that submits nothing unless it is told to. */
export function Button({
  look = 'plain',
  className = '',
  type = 'button',
  ...rest
}: ComponentProps<'button'> & { look?: ButtonLook }) {
  return <button type={type} className={`button ${className}`} data-look={look} {...rest} />;
}
