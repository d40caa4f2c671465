/** The line breaks before the frames of a stack, which cannot be taken for lines of their own. */
const FRAME = /\n(?= {4}at )/;

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

const shown = (character: string): string => {
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  if (character === '\t') return '\\t';
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
};

/** Text with its control characters written as escapes. Stacks keep their lines. */
export const escaped = (text: string): string =>
  text
    .split(FRAME)
    .map((part) => part.replace(CONTROL, shown))
    .join('\n');
