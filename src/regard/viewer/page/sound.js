// Frames of sound below their spectrogram, and a player. Only pages with a sound carry this part.

VIEWS.push({
  id: "sound",
  name: "Sound",
  own: true,
  fits: map => file.sides[map.columns].kind === "audio",
  async draw() {
    const p = await picture(indexNow(), state.head),
      photo = await pictureOf(p.cols.side),
      stage = $("stage"),
      colours = ink();
    const high = min(22, 300 / p.R) * p.R,
      top = 140,
      left = 110,
      wide = max(stage.clientWidth - left - 24, 300);
    const { pen, x: dx, y: dy } = board.start(left + wide + 16, top + high + 60),
      step = wide / p.C;
    if (photo) pen.drawImage(photo, left - dx, 8 - dy, wide, top - 16);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(pixels(p.w, p.R, p.C, p.top), left - dx, top - dy, wide, high);
    pen.strokeStyle = colours.mark;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.font = font(12);
    pen.textBaseline = "middle";
    for (let r = 0; r < p.R; r++) {
      let best = 0;
      for (let c = 1; c < p.C; c++) if (p.w[r * p.C + c] > p.w[r * p.C + best]) best = c;
      const x = left + (best + 0.5) * step - dx,
        y = top + ((r + 0.5) * high) / p.R - dy;
      r ? pen.lineTo(x, y) : pen.moveTo(x, y);
      pen.fillStyle = r === state.row ? colours.mark : colours.text;
      pen.textAlign = "right";
      if (high / p.R >= 10 || r % ceil((11 * p.R) / high) === 0)
        pen.fillText(fit(pen, p.rows.labels[r], left - 14), left - 8 - dx, y);
      if (photo) {
        pen.textAlign = "center";
        pen.fillStyle = "#fff";
        pen.shadowBlur = 3;
        pen.shadowColor = "#000";
        pen.fillText(p.rows.labels[r], x, 20 + (r % 3) * 14 - dy);
        pen.shadowBlur = 0;
      }
    }
    pen.stroke();
    const seconds = p.cols.side.seconds ?? 0;
    pencil(pen, "center", "top", 12, colours.soft);
    for (let k = 0; k <= 8; k++)
      pen.fillText(
        seconds
          ? `${((k / 8) * p.C * seconds).toFixed(p.C * seconds < 4 ? 2 : 1)} s`
          : round((k / 8) * p.C),
        left + (k / 8) * wide - dx,
        top + high + 6 - dy
      );
    if (!saving.now && !printing.now)
      playable(p.cols.side, left, 8, wide, top + high - 8, p.C * seconds);
  }
});

// The player is beside the picture; a line over the picture says where it is.
const player = { audio: null, line: null, side: null };

function playable(side, left, top, wide, high, seconds) {
  if (!side.audio || !seconds) return;
  if (!player.audio) {
    player.audio = make("audio", { controls: "", "aria-label": "the sound" });
    player.audio.style.width = "100%";
    player.line = make("div", { "aria-hidden": "true" });
    player.line.style.cssText = "position:absolute;left:0;width:2px;pointer-events:none";
    $("what").before(player.audio);
    $("stage").append(player.line);
    const run = () => {
      follow();
      if (!player.audio.paused) requestAnimationFrame(run);
    };
    for (const name of ["play", "seeked", "timeupdate", "pause"])
      player.audio.addEventListener(name, run);
    new MutationObserver(follow).observe($("views"), {
      subtree: true,
      childList: true,
      attributes: true
    });
    $("stage").addEventListener("click", e => {
      // on the spectrogram: from there
      const x =
        e.clientX - $("stage").getBoundingClientRect().left + $("stage").scrollLeft - player.left;
      const y = e.clientY - $("stage").getBoundingClientRect().top + $("stage").scrollTop;
      if (viewNow().id === "sound" && x >= 0 && x <= player.wide && y < 132)
        player.audio.currentTime = (x / player.wide) * player.seconds;
    });
  }
  if (player.side !== side) {
    player.side = side;
    player.audio.src = URL.createObjectURL(
      new Blob([file.bytes(side.audio)], { type: "audio/wav" })
    );
  }
  Object.assign(player, { left, wide, seconds });
  Object.assign(player.line.style, {
    top: `${top}px`,
    height: `${high}px`,
    background: ink().mark
  });
  follow();
}

function follow() {
  player.line.hidden = viewNow().id !== "sound";
  player.line.style.transform = `translateX(${player.left + player.wide * min(player.audio.currentTime / player.seconds, 1)}px)`;
}
