import type { Workload } from '../workload.js';
import { followLag } from './follow-lag.js';
import { idleFollowers } from './idle-followers.js';
import { manyTurns } from './many-turns.js';
import { massRecovery } from './mass-recovery.js';
import { millionTasks } from './million-tasks.js';
import { renewals } from './renewals.js';
import { streamLength } from './stream-length.js';
import { streams } from './streams.js';
import { turns } from './turns.js';

/** In the order of the table. */
export const WORKLOADS: readonly Workload[] = [
  turns,
  streams,
  streamLength,
  followLag,
  renewals,
  idleFollowers,
  manyTurns,
  millionTasks,
  massRecovery,
];
