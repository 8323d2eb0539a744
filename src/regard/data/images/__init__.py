"""Images and video: decoding, augmentation, backbones, synthetic sets."""
