/**
 * Preloaded into a replica (`NODE_OPTIONS=--import …`): stands still at, or changes, statements of its pg clients. What a
 * signal from outside could only hit by luck happens here at one exact point, by a real SIGSTOP of the whole process.
 *
 * PAUSE_BEFORE: pattern of the statement to stand still before, matched against its text and the JSON of its parameters.
 *   Each SIGUSR2 arms it for one time.
 * REWRITE_SQL: JSON list of [pattern, replacement], to take a guard away.
 */
import { writeSync } from 'node:fs';
import pg from 'pg';

const pauseBefore = process.env.PAUSE_BEFORE ? new RegExp(process.env.PAUSE_BEFORE) : undefined;
const rewrites = JSON.parse(process.env.REWRITE_SQL ?? '[]').map(([from, to]) => [new RegExp(from), to]);
let armed = 0;

process.on('SIGUSR2', () => {
  armed += 1;
  writeSync(1, 'sql-points: armed\n');
});

const { query } = pg.Client.prototype;

pg.Client.prototype.query = function (config, ...rest) {
  const text = typeof config === 'string' ? config : config?.text;
  if (typeof text !== 'string') return query.call(this, config, ...rest);
  const sent = rewrites.reduce((sql, [from, to]) => sql.replace(from, to), text);
  if (sent !== text) writeSync(1, 'sql-points: rewritten\n');
  if (armed > 0 && pauseBefore?.test(`${sent} ${JSON.stringify(rest[0] ?? config?.values ?? [])}`)) {
    armed -= 1;
    writeSync(1, 'sql-points: paused\n');
    process.kill(process.pid, 'SIGSTOP');
  }
  if (typeof config === 'string') return query.call(this, sent, ...rest);
  config.text = sent;
  return query.call(this, config, ...rest);
};
