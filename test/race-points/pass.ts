import { type Case, CASES, type ClusterKind } from './cases.js';
import { Gate } from './gate.js';
import { Lane, type Outcome } from './lane.js';

/** A limit is there to end what hangs: a case may wait for all others of its lane, on a busy machine. */
export const WHOLE_PASS_MS = 900_000;

/** What a whole pass comes to: one promise for each case. */
export interface Pass {
  outcomes: Map<Case, Promise<Outcome>>;
  stop(): Promise<void>;
}

/** More boots at once on two cores are none the sooner, and take the others' leases. */
const BOOTS_AT_ONCE = 2;

const LANES: Record<ClusterKind, number> = { fails: 3, 'runs again': 2, 'seldom sweeps': 1 };

/** Plays all cases, each kind in lanes of its own, at the same time as the others. */
export function startPass(play: (lane: Lane, it: Case) => Promise<Outcome>): Pass {
  const outcomes = new Map<Case, Promise<Outcome>>();
  const boots = new Gate(BOOTS_AT_ONCE);
  const stops: (() => Promise<void>)[] = [];
  for (const [kind, lanes] of Object.entries(LANES) as [ClusterKind, number][]) {
    for (let nth = 0; nth < lanes; nth += 1) {
      const cases = CASES.filter((it) => it.kind === kind).filter((_it, at) => at % lanes === nth);
      if (cases.length === 0) continue;
      const lane = Lane.start(kind, boots);
      let last: Promise<unknown> = lane;
      for (const it of cases) {
        const outcome = last.then(async () => play(await lane, it));
        last = outcome.catch(() => undefined);
        outcomes.set(it, outcome);
      }
      stops.push(async () => {
        await last;
        await (await lane).stop();
      });
    }
  }
  return {
    outcomes,
    async stop() {
      await Promise.all(stops.map((stop) => stop()));
    },
  };
}
