/** A promise that was not kept. */
export interface Violation {
  /** I1 to I7 of the contract, `acknowledged` or `push`. */
  readonly invariant: string;
  /** The task concerned. */
  readonly taskId?: string;
  readonly text: string;
}
