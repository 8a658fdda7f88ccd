import './token-strip.css';
import { type MouseEvent, useEffect, useRef } from 'react';

import { useThemeColors } from '../../charts/theme-colors.ts';

/** Width of a cell and of its gap, px; narrower if there would be too many rows. */
const CELL = 6;
const LEAST_CELL = 2;
const ROW = 12;
const MAX_ROWS = 6;

/** All tokens of a sequence, one cell each: trained ones coloured, context pale. A click selects a token. */
export function TokenStrip({ isTrained, onPick }: { isTrained: readonly boolean[]; onPick: (index: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const perRow = useRef(1);
  const cell = useRef(CELL);
  const colors = useThemeColors();
  useEffect(() => {
    const element = canvas.current!;
    const draw = () => {
      const width = element.parentElement!.clientWidth;
      cell.current = Math.max(
        LEAST_CELL,
        Math.min(CELL, Math.floor((width * MAX_ROWS) / Math.max(1, isTrained.length))),
      );
      perRow.current = Math.max(1, Math.floor(width / cell.current));
      const height = Math.ceil(isTrained.length / perRow.current) * ROW;
      const scale = devicePixelRatio;
      element.width = width * scale;
      element.height = height * scale;
      element.style.height = `${height}px`;
      const context = element.getContext('2d')!;
      context.scale(scale, scale);
      isTrained.forEach((trained, index) => {
        context.fillStyle = trained ? colors.series[0]! : colors.line;
        const x = (index % perRow.current) * cell.current;
        const y = Math.floor(index / perRow.current) * ROW;
        context.fillRect(x, trained ? y : y + 3, Math.max(1, cell.current - 1), trained ? ROW - 2 : ROW - 8);
      });
    };
    draw();
    const observer = new ResizeObserver(draw);
    observer.observe(element.parentElement!);
    return () => observer.disconnect();
  }, [isTrained, colors]);
  function pick({ nativeEvent: { offsetX, offsetY } }: MouseEvent) {
    const index = Math.floor(offsetY / ROW) * perRow.current + Math.floor(offsetX / cell.current);
    if (isTrained[index] !== undefined) onPick(index);
  }
  return (
    <div className="token-strip">
      <canvas ref={canvas} aria-hidden="true" onClick={pick} />
    </div>
  );
}
