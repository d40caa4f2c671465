import type { Administrator } from '../cluster/administrator.js';
import type { Random } from '../random.js';
import { type Fault, pause } from './fault.js';

/** Settings of a role that end statements, transactions or sessions. The run's own PostgreSQL is new enough for all. */
const SETTINGS = [
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
  'idle_session_timeout',
  'transaction_timeout',
];

/** The tightest ends nearly everything, the widest what is slow: 1 to 256 ms, small ones as often as large ones. */
const EXPONENTS = 8;

/** The replicas may have fewer sessions than they had, or just as many. In percent. */
const SESSIONS = 'sessions';
const LEAST_PERCENT = 40;
const MOST_PERCENT = 100;

const drawForm = (random: Random): string => {
  if (random.chance(1 / 3)) {
    const percent = random.between(LEAST_PERCENT, MOST_PERCENT);
    return `${SESSIONS} ${percent} % ${random.pick(['kept', 'ended'])}`;
  }
  return `${random.pick(SETTINGS)} ${2 ** random.between(0, EXPONENTS)}`;
};

/**
 * For a while the replicas' role is limited: in how long it may do something, or in how many sessions it may have. The
 * limits hold for the sessions that begin meanwhile; so all are ended before and after.
 */
export const databaseLimits: Fault = {
  kind: 'database-limits',
  weight: 3,
  hits: 'database',
  draw: (random) => ({ forMs: random.between(1_000, 5_000), form: drawForm(random) }),
  async apply({ administrator }, { forMs, form }) {
    const [name = '', value = '', , manner] = form.split(' ');
    try {
      if (name === SESSIONS) await limitSessions(administrator, Number(value));
      else await administrator.restrict(name, `${value}ms`);
      if (manner !== 'kept') await administrator.endSessions();
      await pause(forMs);
    } finally {
      await administrator.lift();
      await administrator.endSessions();
    }
  },
};

async function limitSessions(administrator: Administrator, percent: number): Promise<void> {
  const all = Object.values(await administrator.sessions()).reduce((sum, count) => sum + count, 0);
  await administrator.limitSessions(Math.ceil((all * percent) / 100));
}
