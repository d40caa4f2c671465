import { startOurs } from '../contenders/ours.js';
import { limitSweep } from '../contenders/limit-sweep.js';
import { blockingTurn } from '../driver.js';
import { interleaved } from '../rounds.js';
import { quantile } from '../statistics.js';
import type { Contender } from '../measurements.js';
import { seedTasks } from '../seed.js';
import { StatementCounter } from '../statement-counter.js';
import type { Workload } from '../workload.js';

const ROUNDS = 5;
const ABANDONED = 1_000;
/** Turns that others begin meanwhile. */
const TURN_EVERY_MS = 25;
const QUIET_MS = 2_000;

/** W9: a replica with many turns is gone, and another one ends them all in one sweep. */
export const massRecovery: Workload = {
  name: 'W9',
  title: `one sweep over ${ABANDONED.toLocaleString('en-US')} abandoned turns, with ${1_000 / TURN_EVERY_MS} other turns/s`,
  without: { peer: 'a dead replica’s tasks stay WORKING for ever' },
  bounds: [
    { metric: 'tasks ended', atLeast: 500, unit: '/s' },
    { metric: 'claims', atMost: 1 + ABANDONED / 100 },
    { metric: 'turn latency beside the sweep', by: { metric: 'turn latency' }, atMost: 2 },
  ],
  charted: ['tasks ended'],
  async run(environment, measured) {
    const url = await environment.createClusterDatabase();
    const limitUrl = await environment.createClusterDatabase();
    // It sweeps when it is told to.
    const ours = await startOurs(url, { sweeper: { intervalMs: 3_600_000 } });
    const counter = new StatementCounter();
    try {
      const contenders: Contender[] = ['ours', 'limit'];
      await interleaved(ROUNDS, contenders, measured, async (contender, record) => {
        const seed = { tasks: ABANDONED, expiresInMs: -1 };
        if (contender === 'limit') {
          await seedTasks(limitUrl, seed);
          record('limit', 'tasks ended', '/s', perSecond(await limitSweep(limitUrl, ABANDONED)));
          return;
        }
        await seedTasks(url, seed);
        const quiet = await turnsWhile(() => new Promise((resolve) => setTimeout(resolve, QUIET_MS)));
        counter.take();
        let tookMs = 0;
        const beside = await turnsWhile(async () => {
          const begun = performance.now();
          const { failed } = await ours.sweeper.runOnce();
          tookMs = performance.now() - begun;
          if (failed !== ABANDONED) throw new Error(`${failed} of ${ABANDONED} turns were ended`);
        });
        record('ours', 'tasks ended', '/s', perSecond(tookMs));
        const claims = counter.take('claims = l.claims + 1');
        if (claims === 0) throw new Error('The statement of a claim is no longer known by this part of its text');
        record('ours', 'claims', '', claims);
        record('ours', 'turn latency', 'ms', quantile(quiet, 0.5));
        record('ours', 'turn latency beside the sweep', 'ms', quantile(beside, 0.5));
      });
    } finally {
      counter.stop();
      await ours.close();
    }

    /** How long turns take that begin at a steady pace while `work` goes on, each in ms. */
    async function turnsWhile(work: () => Promise<void>): Promise<number[]> {
      const took: number[] = [];
      const running: Promise<void>[] = [];
      const timer = setInterval(() => {
        const begun = performance.now();
        running.push(blockingTurn(ours.handler).then(() => void took.push(performance.now() - begun)));
      }, TURN_EVERY_MS);
      try {
        await work();
      } finally {
        clearInterval(timer);
      }
      await Promise.all(running);
      return took;
    }
  },
};

const perSecond = (ms: number): number => ABANDONED / (ms / 1_000);
