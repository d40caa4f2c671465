import type { Workload } from '../workload.js';
import { streamLength } from './stream-length.js';
import { streams } from './streams.js';
import { turns } from './turns.js';

/** In the order of the table. */
export const WORKLOADS: readonly Workload[] = [turns, streams, streamLength];
