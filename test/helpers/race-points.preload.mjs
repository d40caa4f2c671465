/**
 * Preloaded into a replica (see race-points.ts): sends this very process a signal when it passes a race point of the
 * library. What a signal from outside could only hit by luck happens here at one exact point.
 *
 * RACE_POINTS_FILE: JSON of the point, the signal, and how many passings go by before. Each SIGUSR2 reads it, and arms it
 * once.
 */
import { subscribe } from 'node:diagnostics_channel';
import { readFileSync, writeSync } from 'node:fs';

let armed;

process.on('SIGUSR2', () => {
  armed = JSON.parse(readFileSync(process.env.RACE_POINTS_FILE, 'utf8'));
  writeSync(1, 'race-points: armed\n');
});

subscribe('nestjs-a2a-cluster:race-point', (point) => {
  if (point !== armed?.point || armed.skip-- > 0) return;
  const { signal } = armed;
  armed = undefined;
  writeSync(1, `race-points: ${signal} at ${point}\n`);
  process.kill(process.pid, signal);
});
