/**
 * Preloaded into a replica (see sql-points.ts): stands still before a statement of its pg clients, or changes them. What
 * a signal from outside could only hit by luck happens here at one exact point, by a real SIGSTOP of the whole process.
 *
 * SQL_POINTS_FILE: holds the pattern of the statement to stand still before. Each SIGUSR2 reads it, and arms it once.
 * SQL_POINTS_REWRITES: JSON list of [pattern, replacement].
 */
import { readFileSync, writeSync } from 'node:fs';
import pg from 'pg';

const rewrites = JSON.parse(process.env.SQL_POINTS_REWRITES ?? '[]').map(([from, to]) => [new RegExp(from), to]);
let armed;

process.on('SIGUSR2', () => {
  armed = new RegExp(readFileSync(process.env.SQL_POINTS_FILE, 'utf8'));
  writeSync(1, 'sql-points: armed\n');
});

const { query } = pg.Client.prototype;

pg.Client.prototype.query = function (config, ...rest) {
  const text = typeof config === 'string' ? config : config?.text;
  if (typeof text !== 'string') return query.call(this, config, ...rest);
  const sent = rewrites.reduce((sql, [from, to]) => sql.replace(from, to), text);
  if (sent !== text) writeSync(1, 'sql-points: rewritten\n');
  if (armed?.test(`${sent} ${JSON.stringify(rest[0] ?? config?.values ?? [])}`)) {
    armed = undefined;
    writeSync(1, 'sql-points: paused\n');
    process.kill(process.pid, 'SIGSTOP');
  }
  if (typeof config === 'string') return query.call(this, sent, ...rest);
  config.text = sent;
  return query.call(this, config, ...rest);
};
