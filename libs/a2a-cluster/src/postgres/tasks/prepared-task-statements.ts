import type { ClusterDatabase } from '../connection/cluster-database.js';
import { rememberStatement, repeatedStatement } from './receipt-statements.js';
import * as sql from './task-statements.js';

type CreateVariant = Parameters<typeof sql.createStatement>[1];

/** The statements of turns, each made once and prepared: they find their rows by keys, and run many times a second. */
export class PreparedTaskStatements {
  readonly find: string;
  readonly findByNo: string;
  readonly findUpTo: string;
  readonly findByNoUpTo: string;
  readonly readEvents: string;
  readonly lock: string;
  readonly lockByNo: string;
  readonly decide: string;
  readonly acquire: string;
  readonly repeated: string;
  readonly remember: string;
  private readonly creates: string[];
  private readonly appends: string[];

  constructor(database: ClusterDatabase, tables: sql.TaskTables) {
    const prepared = (text: string): string => database.prepared(text);
    this.find = prepared(sql.findStatement(tables));
    this.findByNo = prepared(sql.findByNoStatement(tables));
    this.findUpTo = prepared(sql.findUpToStatement(tables));
    this.findByNoUpTo = prepared(sql.findByNoUpToStatement(tables));
    this.readEvents = prepared(sql.readEventsStatement(tables));
    this.lock = prepared(sql.lockStatement(tables));
    this.lockByNo = prepared(sql.lockByNoStatement(tables));
    this.decide = prepared(sql.decideStatement(tables));
    this.acquire = prepared(sql.acquireStatement(tables));
    this.repeated = prepared(repeatedStatement(tables));
    this.remember = prepared(rememberStatement(tables));
    this.creates = CREATE_VARIANTS.map((variant) => prepared(sql.createStatement(tables, variant)));
    this.appends = APPEND_VARIANTS.map((variant) => prepared(sql.appendStatement(tables, variant)));
  }

  create(variant: CreateVariant): string {
    return this.creates[createIndex(variant)]!;
  }

  append(variant: sql.AppendVariant): string {
    return this.appends[appendIndex(variant)]!;
  }
}

const createIndex = ({ leased, receipted, pushed }: CreateVariant): number =>
  Number(leased) + 2 * Number(receipted) + 4 * Number(pushed);

const appendIndex = ({ fenced, endsTurn }: sql.AppendVariant): number => Number(fenced) + 2 * Number(endsTurn);

const bit = (index: number, at: number): boolean => ((index >> at) & 1) === 1;

const CREATE_VARIANTS = Array.from({ length: 8 }, (_, index) => ({
  ...{ leased: bit(index, 0), receipted: bit(index, 1), pushed: bit(index, 2) },
}));

const APPEND_VARIANTS = Array.from({ length: 4 }, (_, index) => ({ fenced: bit(index, 0), endsTurn: bit(index, 1) }));
