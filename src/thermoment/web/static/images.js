// Small images on canvases: grey ones as the machine sees them, and weights from cold to warm.
import { ofDisplacement } from "./colours.js";

/** Draws values from 0 to 1, row by row, white on black. */
export function drawImage(canvas, values, side) {
  canvas.width = canvas.height = side;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(side, side);
  for (let k = 0; k < side * side; k++) {
    const grey = Math.round(255 * (values ? values[k] : 0));
    image.data.set([grey, grey, grey, 255], 4 * k);
  }
  pen.putImageData(image, 0, 0);
}

/** Draws weights, the largest as warm or as cold as can be. */
export function drawWeights(canvas, weights) {
  const side = Math.round(Math.sqrt(weights.length));
  canvas.width = canvas.height = side;
  const pen = canvas.getContext("2d");
  const largest = Math.max(...weights.map(Math.abs), 1e-12);
  weights.forEach((weight, k) => {
    pen.fillStyle = ofDisplacement(weight / largest);
    pen.fillRect(k % side, Math.floor(k / side), 1, 1);
  });
}
