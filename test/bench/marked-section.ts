/**
 * Puts generated text between `<!-- NAME -->` and `<!-- /NAME -->`, and leaves the rest of the document as it is.
 *
 * @throws {Error} where the document does not have the two marks, each once and in this order
 */
export function replaceMarkedSection(document: string, name: string, content: string): string {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [before, rest, ...moreOpen] = document.split(open);
  const [, after, ...moreClose] = (rest ?? '').split(close);
  if (before === undefined || after === undefined || moreOpen.length > 0 || moreClose.length > 0) {
    throw new Error(`The document needs ${open} and ${close}, each once.`);
  }
  return `${before}${open}\n\n${content}\n\n${close}${after}`;
}
