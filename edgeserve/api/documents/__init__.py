"""Files of a chat: texts and PDF documents."""
