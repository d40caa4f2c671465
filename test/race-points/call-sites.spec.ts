import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readdirSync, readFileSync } from 'node:fs';
import { RACE_POINT_CHANNEL, RACE_POINTS, racePoint } from '../../libs/a2a-cluster/src/race-points/race-points.js';

const LIBRARY = new URL('../../libs/a2a-cluster/src/', import.meta.url);

/** The names in all calls of `racePoint` in the library; a call may choose between two. */
function calledPoints(): string[] {
  const files = readdirSync(LIBRARY, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /(?<![.]spec)[.]ts$/.test(file),
  );
  const sources = files.map((file) => readFileSync(new URL(file, LIBRARY), 'utf8'));
  const calls = sources.flatMap((source) => [...source.matchAll(/\bracePoint\(([^()]*)\);/g)]);
  return calls.flatMap(([, names = '']) => [...names.matchAll(/'([^']+)'/g)].map(([, name = '']) => name));
}

describe('Race points', () => {
  it('are each passed at one place of the library, and no place passes any other', () => {
    expect(calledPoints().sort()).toEqual([...RACE_POINTS].sort());
  });

  it('are all listed in docs/internals/reliability.md', () => {
    const docs = readFileSync(new URL('../../docs/internals/reliability.md', import.meta.url), 'utf8');
    const [, section = ''] = docs.split('## Race points');
    const listed = [...section.split('\n## ')[0]!.matchAll(/^\| `([a-z-]+\.[a-z]+)`/gm)].map(([, name]) => name);
    expect(listed).toEqual([...RACE_POINTS]);
  });

  it('are told to who subscribes in this process, and to nobody once he has left', () => {
    const passed: unknown[] = [];
    const listener = (point: unknown): void => void passed.push(point);
    racePoint('commit.before');
    subscribe(RACE_POINT_CHANNEL, listener);
    racePoint('commit.after');
    unsubscribe(RACE_POINT_CHANNEL, listener);
    racePoint('release.before');
    expect(passed).toEqual(['commit.after']);
  });
});
